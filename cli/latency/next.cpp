#include "cli/latency/next.hpp"

#include <dlfcn.h>

namespace mortise::latency {
namespace {

constexpr std::size_t kAlign = 16;
constinit std::size_t early_used = 0;

template <class F> void find(F*& function, const char* name) noexcept {
  function = reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

constinit Next next{};
alignas(kAlign) constinit unsigned char early[kEarlyBytes] = {};

bool find_next() noexcept {
  static constinit bool finding = false;
  if (next.malloc) return true;
  if (finding) return false;
  finding = true;  // the first call comes from the loader or from main, before there is a second thread
  find(next.calloc, "calloc");
  find(next.realloc, "realloc");
  find(next.free, "free");
  find(next.posix_memalign, "posix_memalign");
  find(next.aligned_alloc, "aligned_alloc");
  find(next.memalign, "memalign");
  find(next.valloc, "valloc");
  find(next.pvalloc, "pvalloc");
  find(next.malloc_usable_size, "malloc_usable_size");
  find(next.malloc, "malloc");
  return next.malloc != nullptr;
}

// In front of each block lies its size.
void* early_block(std::size_t bytes) noexcept {
  if (bytes > kEarlyBytes - 2 * kAlign) return nullptr;
  const std::size_t whole = kAlign + ((bytes + kAlign - 1) & ~(kAlign - 1));
  const std::size_t at = __atomic_fetch_add(&early_used, whole, __ATOMIC_RELAXED);
  if (at + whole > kEarlyBytes) return nullptr;
  *reinterpret_cast<std::size_t*>(early + at) = bytes;
  return early + at + kAlign;
}

std::size_t early_size(const void* block) noexcept {
  return *reinterpret_cast<const std::size_t*>(static_cast<const unsigned char*>(block) - kAlign);
}

}  // namespace mortise::latency
