// The operators of C++ in front of the allocator's malloc and free, so that a call's site is the program and not
// libstdc++. Without memory the C++ library's own operator decides what happens (new-handler, std::bad_alloc).
#include <dlfcn.h>

#include <cstdlib>
#include <new>

#include "abi/beside.hpp"
#include "abi/front.hpp"
#include "mortise/core/inline.hpp"
#include "mortise/os/console.hpp"

#include "cli/latency/next.hpp"
#include "cli/latency/timing.hpp"

using namespace mortise::latency;
using mortise::abi::Derived;

#define SITE __builtin_return_address(0)

extern "C" [[gnu::weak]] void* linked_begin_catch(void*) noexcept asm("__cxa_begin_catch");

namespace {

MORTISE_HOT void* allocate(std::size_t size, const void* site) noexcept {
  if (passes(kMalloc)) [[likely]] return front.next.malloc(size);
  return slow_malloc(size, site);
}

/// By aligned_alloc, of a multiple of the alignment, as the C++ library does: an allocator need not have memalign, and libc's is none of its.
MORTISE_HOT void* allocate(std::size_t size, std::align_val_t alignment, const void* site) noexcept {
  const auto align = static_cast<std::size_t>(alignment);
  const std::size_t rounded = (size + align - 1) & ~(align - 1), bytes = rounded < size ? size : rounded;
  if (passes(kAligned)) [[likely]] return front.next.aligned_alloc(align, bytes);
  return slow_aligned(align, bytes, site);
}

MORTISE_HOT void release(void* block, const void* site) noexcept {
  if (passes(kFree)) [[likely]] return front.next.free(block);
  slow_free(block, site);
}

enum Operator : unsigned { kNew, kNewArray, kNewAligned, kNewArrayAligned, kNewNothrow, kNewArrayNothrow, kNewAlignedNothrow,
                          kNewArrayAlignedNothrow, kOperators };
constexpr const char* kNames[kOperators] = {"_Znwm", "_Znam", "_ZnwmSt11align_val_t", "_ZnamSt11align_val_t",
                                            "_ZnwmRKSt9nothrow_t", "_ZnamRKSt9nothrow_t",
                                            "_ZnwmSt11align_val_tRKSt9nothrow_t", "_ZnamSt11align_val_tRKSt9nothrow_t"};
constinit void* behind[kOperators] = {};

/// The same operator behind us, the C++ library's or the allocator's, or that of what was loaded together with the caller. Null where there
/// is none that the caller would come to.
template <class... A> auto* operator_behind(Operator which, const void* site) noexcept {
  void* theirs = behind[which];
  if (!theirs) {
    theirs = mortise::abi::find_beside(site, kNames[which], dlopen, dlclose);
    if (mortise::abi::is_of(theirs, &front)) theirs = nullptr;
  }
  return reinterpret_cast<void* (*)(A...)>(theirs);
}

/// It calls malloc again, which fails again, and then does what it must.
template <class... A> MORTISE_COLD void* failed(Operator which, const void* site, A... arguments) {
  if (auto* const theirs = operator_behind<A...>(which, site)) return theirs(arguments...);
  mortise::os::Line<> line;
  line.text("mortise latency: operator new found no memory and no C++ library to throw std::bad_alloc").flush();
  abort();
}

/// Whether the program has a basic operator of its own for one that is made of it: then that comes down to the program's, as without us.
bool is_in_front(Derived which) noexcept {
  find_next();
  return mortise::abi::front.basic[static_cast<unsigned>(which)];
}

std::uintptr_t second(const std::nothrow_t*) noexcept { return 0; }
std::uintptr_t second(std::align_val_t align, const std::nothrow_t*) noexcept { return static_cast<std::uintptr_t>(align); }

/// A nothrow form's way where ours does not serve.
template <class... A> MORTISE_COLD void* made_behind(Derived which, Operator same, const void* site, std::size_t size, A... arguments) {
  if (auto* const theirs = operator_behind<std::size_t, A...>(same, site)) return theirs(size, arguments...);
  return is_in_front(which) ? mortise::abi::new_by_program(which, size, second(arguments...)) : nullptr;
}

}  // namespace

namespace mortise::latency {

MORTISE_COLD void look_for_operators() noexcept {
  abi::look_to_the_front();
  if (!linked_begin_catch) return;  // no C++ library: a look-up that fails asks for memory
  for (unsigned i = 0; i < kOperators; ++i) behind[i] = dlsym(RTLD_NEXT, kNames[i]);
  dlerror(), dlerror();  // where that library is the program's, and nobody behind us: the second frees what the first tells
}

}  // namespace mortise::latency

MORTISE_EXPORT void* operator new(std::size_t size) {
  void* const block = allocate(size, SITE);
  return block ? block : failed(kNew, SITE, size);
}
MORTISE_EXPORT void* operator new(std::size_t size, std::align_val_t align) {
  void* const block = allocate(size, align, SITE);
  return block ? block : failed(kNewAligned, SITE, size, align);
}
MORTISE_EXPORT void operator delete(void* p) noexcept { release(p, SITE); }
MORTISE_EXPORT void operator delete(void* p, std::align_val_t) noexcept { release(p, SITE); }

MORTISE_EXPORT void* operator new[](std::size_t size) {
  if (is_in_front(Derived::new_array)) return mortise::abi::new_by_program(Derived::new_array, size);
  void* const block = allocate(size, SITE);
  return block ? block : failed(kNewArray, SITE, size);
}
MORTISE_EXPORT void* operator new[](std::size_t size, std::align_val_t align) {
  if (is_in_front(Derived::new_array_aligned))
    return mortise::abi::new_by_program(Derived::new_array_aligned, size, static_cast<std::uintptr_t>(align));
  void* const block = allocate(size, align, SITE);
  return block ? block : failed(kNewArrayAligned, SITE, size, align);
}

// The nothrow form behind us asks a new-handler, and catches what that or the program's own operator throws.
#define NOTHROW_NEW(brackets, array, Array)                                                                                              \
  MORTISE_EXPORT void* operator new brackets(std::size_t size, const std::nothrow_t& nothrow) noexcept {                                 \
    constexpr auto kWhich = Derived::new##array##_nothrow;                                                                               \
    if (!is_in_front(kWhich))                                                                                                            \
      if (void* const block = allocate(size, SITE)) return block;                                                                        \
    return made_behind(kWhich, kNew##Array##Nothrow, SITE, size, &nothrow);                                                              \
  }                                                                                                                                      \
  MORTISE_EXPORT void* operator new brackets(std::size_t size, std::align_val_t align, const std::nothrow_t& nothrow) noexcept {         \
    constexpr auto kWhich = Derived::new##array##_aligned_nothrow;                                                                       \
    if (!is_in_front(kWhich))                                                                                                            \
      if (void* const block = allocate(size, align, SITE)) return block;                                                                 \
    return made_behind(kWhich, kNew##Array##AlignedNothrow, SITE, size, align, &nothrow);                                                \
  }
#define DELETE(which, brackets, second, ...)                                                                                             \
  MORTISE_EXPORT void operator delete brackets(void* p __VA_OPT__(, ) __VA_ARGS__) noexcept {                                            \
    if (is_in_front(Derived::which)) return mortise::abi::delete_by_program(Derived::which, p, second);                                  \
    release(p, SITE);                                                                                                                    \
  }
#define ALIGN static_cast<std::uintptr_t>(align)

NOTHROW_NEW(, , )
NOTHROW_NEW([], _array, Array)

DELETE(delete_array, [], 0)
DELETE(delete_sized, , 0, std::size_t)
DELETE(delete_array_sized, [], 0, std::size_t)
DELETE(delete_nothrow, , 0, const std::nothrow_t&)
DELETE(delete_array_nothrow, [], 0, const std::nothrow_t&)
DELETE(delete_array_aligned, [], ALIGN, std::align_val_t align)
DELETE(delete_sized_aligned, , ALIGN, std::size_t, std::align_val_t align)
DELETE(delete_array_sized_aligned, [], ALIGN, std::size_t, std::align_val_t align)
DELETE(delete_aligned_nothrow, , ALIGN, std::align_val_t align, const std::nothrow_t&)
DELETE(delete_array_aligned_nothrow, [], ALIGN, std::align_val_t align, const std::nothrow_t&)
