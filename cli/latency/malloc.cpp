// malloc(3) in front of malloc(3): each entry point either passes straight on or has its call timed, in a function that
// is called from the end.
#include <cerrno>

#include "abi/front.hpp"
#include "cli/latency/next.hpp"
#include "cli/latency/timing.hpp"
#include "mortise/core/inline.hpp"

using namespace mortise::latency;

#define SITE __builtin_return_address(0)

namespace mortise::latency {

[[gnu::noinline]] void* slow_malloc(std::size_t size, const void* site) noexcept {
  if (!find_next()) return early_block(size);
  return timed_allocation(kMalloc, size, site, [=] { return front.next.malloc(size); });
}

[[gnu::noinline]] void slow_free(void* block, const void* site) noexcept {
  if (!block && !self.record) return;  // libc frees many for threads that have ended: nobody would be there to give the record back
  if (find_next()) timed_free(block, site, [=] { front.next.free(block); });
}

[[gnu::noinline]] void* slow_aligned(std::size_t align, std::size_t size, const void* site) noexcept {
  if (!find_next()) return nullptr;
  return timed_allocation(kAligned, size, site, [=] { return front.next.aligned_alloc(align, size); });
}

}  // namespace mortise::latency

namespace {

[[gnu::noinline]] void* slow_calloc(std::size_t count, std::size_t size, const void* site) noexcept {
  std::size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) bytes = ~std::size_t{0};
  if (!find_next()) return early_block(bytes);  // static memory is zero
  return timed_allocation(kCalloc, bytes, site, [=] { return front.next.calloc(count, size); });
}

[[gnu::noinline]] void* slow_realloc(void* block, std::size_t size, const void* site) noexcept {
  if (!find_next()) return resized_early_block(block, size);
  return timed_allocation(kRealloc, size, site, [=] { return front.next.realloc(block, size); });
}

/// Those of the aligned family that are rare.
template <class Function> MORTISE_HOT void* aligned(std::size_t size, const void* site, Function call) noexcept {
  if (passes(kAligned)) [[likely]] return call();
  return find_next() ? timed_allocation(kAligned, size, site, call) : nullptr;
}

}  // namespace

extern "C" {

MORTISE_EXPORT void* malloc(std::size_t size) noexcept {
  if (passes(kMalloc)) [[likely]] return front.next.malloc(size);
  return slow_malloc(size, SITE);
}

MORTISE_EXPORT void free(void* block) noexcept {
  if (passes(kFree)) [[likely]] return front.next.free(block);
  slow_free(block, SITE);
}

MORTISE_EXPORT void* calloc(std::size_t count, std::size_t size) noexcept {
  if (passes(kCalloc)) [[likely]] return front.next.calloc(count, size);
  return slow_calloc(count, size, SITE);
}

MORTISE_EXPORT void* realloc(void* block, std::size_t size) noexcept {
  if (passes(kRealloc)) [[likely]] return front.next.realloc(block, size);
  return slow_realloc(block, size, SITE);
}

MORTISE_EXPORT void* reallocarray(void* block, std::size_t count, std::size_t size) noexcept {
  std::size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  find_next();
  if (auto* const own = mortise::abi::front.reallocates) [[unlikely]] return own(block, bytes);  // the program's, as libc's comes down to it
  if (passes(kRealloc)) [[likely]] return front.next.realloc(block, bytes);
  return slow_realloc(block, bytes, SITE);
}

MORTISE_EXPORT void* memalign(std::size_t align, std::size_t size) noexcept {
  return aligned(size, SITE, [=] { return front.next.memalign(align, size); });
}

MORTISE_EXPORT void* aligned_alloc(std::size_t align, std::size_t size) noexcept {
  if (passes(kAligned)) [[likely]] return front.next.aligned_alloc(align, size);
  return slow_aligned(align, size, SITE);
}

MORTISE_EXPORT int posix_memalign(void** out, std::size_t align, std::size_t size) noexcept {
  if (passes(kAligned)) [[likely]] return front.next.posix_memalign(out, align, size);
  int failed = ENOMEM;
  if (find_next())
    timed_allocation(kAligned, size, SITE, [&] {
      failed = front.next.posix_memalign(out, align, size);
      return failed ? nullptr : *out;
    });
  return failed;
}

MORTISE_EXPORT void* valloc(std::size_t size) noexcept {
  return aligned(size, SITE, [=] { return front.next.valloc(size); });
}

MORTISE_EXPORT void* pvalloc(std::size_t size) noexcept {
  return aligned(size, SITE, [=] { return front.next.pvalloc(size); });
}

MORTISE_EXPORT std::size_t malloc_usable_size(void* block) noexcept {
  if (is_early(block)) return early_size(block);
  return find_next() && front.next.malloc_usable_size ? front.next.malloc_usable_size(block) : 0;
}

MORTISE_EXPORT void free_sized(void* block, std::size_t) noexcept {
  if (passes(kFree)) [[likely]] return front.next.free(block);
  slow_free(block, SITE);
}

MORTISE_EXPORT void free_aligned_sized(void* block, std::size_t, std::size_t) noexcept {
  if (passes(kFree)) [[likely]] return front.next.free(block);
  slow_free(block, SITE);
}
}
