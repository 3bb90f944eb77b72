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

/// The C++ library's operator of the same name: it calls malloc again, which fails again, and then does what it must.
template <class... A> MORTISE_COLD void* failed(const char* name, A... arguments) {
  const auto theirs = reinterpret_cast<void* (*)(A...)>(dlsym(RTLD_NEXT, name));
  if (!theirs) abort();
  return theirs(arguments...);
}

}  // namespace

#define NEW(letter, brackets)                                                                                        \
  MORTISE_EXPORT void* operator new brackets(std::size_t size) {                                                     \
    void* const block = allocate(size, SITE);                                                                        \
    return block ? block : failed("_Z" letter "m", size);                                                            \
  }                                                                                                                  \
  MORTISE_EXPORT void* operator new brackets(std::size_t size, const std::nothrow_t&) noexcept {                     \
    return allocate(size, SITE);                                                                                     \
  }                                                                                                                  \
  MORTISE_EXPORT void* operator new brackets(std::size_t size, std::align_val_t align) {                             \
    void* const block = allocate(size, align, SITE);                                                                 \
    return block ? block : failed("_Z" letter "mSt11align_val_t", size, align);                                      \
  }                                                                                                                  \
  MORTISE_EXPORT void* operator new brackets(std::size_t size, std::align_val_t align, const std::nothrow_t&) noexcept {\
    return allocate(size, align, SITE);                                                                              \
  }

#define DELETE(brackets)                                                                                             \
  MORTISE_EXPORT void operator delete brackets(void* p) noexcept { release(p, SITE); }                               \
  MORTISE_EXPORT void operator delete brackets(void* p, std::size_t) noexcept { release(p, SITE); }                  \
  MORTISE_EXPORT void operator delete brackets(void* p, const std::nothrow_t&) noexcept { release(p, SITE); }        \
  MORTISE_EXPORT void operator delete brackets(void* p, std::align_val_t) noexcept { release(p, SITE); }             \
  MORTISE_EXPORT void operator delete brackets(void* p, std::size_t, std::align_val_t) noexcept { release(p, SITE); }\
  MORTISE_EXPORT void operator delete brackets(void* p, std::align_val_t, const std::nothrow_t&) noexcept { release(p, SITE); }

NEW("nw", )
NEW("na", [])
DELETE()
DELETE([])
