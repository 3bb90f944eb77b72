// The operators of C++ in front of the allocator's malloc and free, so that a call's site is the program and not
// libstdc++. Without memory the C++ library's own operator decides what happens (new-handler, std::bad_alloc).
#include <dlfcn.h>

#include <cstdlib>
#include <new>

#include "mortise/core/inline.hpp"

#include "cli/latency/next.hpp"
#include "cli/latency/timing.hpp"

using namespace mortise::latency;

#define SITE __builtin_return_address(0)

namespace {

MORTISE_HOT void* allocate(std::size_t size, const void* site) noexcept {
  if (passes(kMalloc)) [[likely]] return front.next.malloc(size);
  return slow_malloc(size, site);
}

MORTISE_HOT void* allocate(std::size_t size, std::align_val_t align, const void* site) noexcept {
  if (passes(kAligned)) [[likely]] return front.next.memalign(static_cast<std::size_t>(align), size);
  return slow_aligned(static_cast<std::size_t>(align), size, site);
}

MORTISE_HOT void release(void* block, const void* site) noexcept {
  if (passes(kFree)) [[likely]] return front.next.free(block);
  slow_free(block, site);
}

/// The operator of the same name behind us, the C++ library's or the allocator's.
template <class... A> auto* operator_behind(const char* name) noexcept {
  const auto theirs = reinterpret_cast<void* (*)(A...)>(dlsym(RTLD_NEXT, name));
  if (!theirs) abort();
  return theirs;
}

/// It calls malloc again, which fails again, and then does what it must.
template <class... A> MORTISE_COLD void* failed(const char* name, A... arguments) { return operator_behind<A...>(name)(arguments...); }

bool is_in_front(const char* name) noexcept {
  Dl_info its, ours;
  const void* const found = dlsym(RTLD_DEFAULT, name);
  return found && dladdr(found, &its) && dladdr(&front, &ours) && its.dli_fbase != ours.dli_fbase;
}

/// Whether the program has operators of its own: then those that are made of others come down to them, as without us.
bool has_own_operators() noexcept {
  static constinit int known = 0;  // 1: no, 2: yes
  int is = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (is == 0) {
    is = 1;
    constexpr const char* kBasic[] = {"_Znwm",  "_Znam",  "_ZnwmSt11align_val_t",  "_ZnamSt11align_val_t",
                                      "_ZdlPv", "_ZdaPv", "_ZdlPvSt11align_val_t", "_ZdaPvSt11align_val_t"};
    for (const char* const basic : kBasic)
      if (is_in_front(basic)) is = 2;
    __atomic_store_n(&known, is, __ATOMIC_RELAXED);
  }
  return is == 2;
}

/// One that is made of others is the one behind us where those are not ours.
template <class Ours, class... A> void* derived(const char* name, Ours&& ours, A... arguments) {
  return has_own_operators() ? operator_behind<A...>(name)(arguments...) : ours();
}

}  // namespace

MORTISE_EXPORT void* operator new(std::size_t size) {
  void* const block = allocate(size, SITE);
  return block ? block : failed("_Znwm", size);
}
MORTISE_EXPORT void* operator new(std::size_t size, std::align_val_t align) {
  void* const block = allocate(size, align, SITE);
  return block ? block : failed("_ZnwmSt11align_val_t", size, align);
}
MORTISE_EXPORT void operator delete(void* p) noexcept { release(p, SITE); }
MORTISE_EXPORT void operator delete(void* p, std::align_val_t) noexcept { release(p, SITE); }

MORTISE_EXPORT void* operator new[](std::size_t size) {
  const void* const site = SITE;
  return derived("_Znam", [=] {
    void* const block = allocate(size, site);
    return block ? block : failed("_Znam", size);
  }, size);
}
MORTISE_EXPORT void* operator new[](std::size_t size, std::align_val_t align) {
  const void* const site = SITE;
  return derived("_ZnamSt11align_val_t", [=] {
    void* const block = allocate(size, align, site);
    return block ? block : failed("_ZnamSt11align_val_t", size, align);
  }, size, align);
}

#define NOTHROW_NEW(letter, brackets)                                                                                                     \
  MORTISE_EXPORT void* operator new brackets(std::size_t size, const std::nothrow_t& nothrow) noexcept {                                 \
    const void* const site = SITE;                                                                                                       \
    return derived("_Z" letter "mRKSt9nothrow_t", [=] { return allocate(size, site); }, size, &nothrow);                                 \
  }                                                                                                                                      \
  MORTISE_EXPORT void* operator new brackets(std::size_t size, std::align_val_t align, const std::nothrow_t& nothrow) noexcept {         \
    const void* const site = SITE;                                                                                                       \
    return derived("_Z" letter "mSt11align_val_tRKSt9nothrow_t", [=] { return allocate(size, align, site); }, size, align, &nothrow);    \
  }
#define DELETE(name, brackets, parameters, ...)                                                                                          \
  MORTISE_EXPORT void operator delete brackets parameters noexcept {                                                                     \
    const void* const site = SITE;                                                                                                       \
    derived(name, [=]() -> void* { return release(p, site), nullptr; }, __VA_ARGS__);                                                    \
  }

NOTHROW_NEW("nw", )
NOTHROW_NEW("na", [])

DELETE("_ZdaPv", [], (void* p), p)
DELETE("_ZdlPvm", , (void* p, std::size_t n), p, n)
DELETE("_ZdaPvm", [], (void* p, std::size_t n), p, n)
DELETE("_ZdlPvRKSt9nothrow_t", , (void* p, const std::nothrow_t& t), p, &t)
DELETE("_ZdaPvRKSt9nothrow_t", [], (void* p, const std::nothrow_t& t), p, &t)
DELETE("_ZdaPvSt11align_val_t", [], (void* p, std::align_val_t a), p, a)
DELETE("_ZdlPvmSt11align_val_t", , (void* p, std::size_t n, std::align_val_t a), p, n, a)
DELETE("_ZdaPvmSt11align_val_t", [], (void* p, std::size_t n, std::align_val_t a), p, n, a)
DELETE("_ZdlPvSt11align_val_tRKSt9nothrow_t", , (void* p, std::align_val_t a, const std::nothrow_t& t), p, a, &t)
DELETE("_ZdaPvSt11align_val_tRKSt9nothrow_t", [], (void* p, std::align_val_t a, const std::nothrow_t& t), p, a, &t)
