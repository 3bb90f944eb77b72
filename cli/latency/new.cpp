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

void* allocate(std::size_t size, const void* site) noexcept {
  std::uint32_t& left = self.left[kMalloc];
  if (left != 0) [[likely]] {
    --left;
    return next.malloc(size);
  }
  if (!find_next()) return early_block(size);
  return timed_allocation(kMalloc, size, site, [=] { return next.malloc(size); });
}

void* allocate(std::size_t size, std::align_val_t align, const void* site) noexcept {
  if (!find_next()) return nullptr;
  std::uint32_t& left = self.left[kAligned];
  const auto call = [=] { return next.memalign(static_cast<std::size_t>(align), size); };
  if (left == 0) return timed_allocation(kAligned, size, site, call);
  --left;
  return call();
}

void release(void* block, const void* site) noexcept {
  std::uint32_t& left = self.left[kFree];
  if (!block || is_early(block)) return;
  if (left != 0) [[likely]] {
    --left;
    return next.free(block);
  }
  if (find_next()) timed_free(block, site, [=] { next.free(block); });
}

/// The C++ library's operator of the same name: it calls malloc again, which fails again, and then does what it must.
template <class... A> void* failed(const char* name, A... arguments) {
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
