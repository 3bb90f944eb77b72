#include "cli/latency/next.hpp"

#include <dlfcn.h>

#include <cstring>

namespace mortise::latency {
namespace {

constexpr std::size_t kAlign = 16;
constinit std::size_t early_used = 0;

template <class F> void find(F*& function, const char* name) noexcept {
  function = reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

void (*their_free)(void*) = nullptr;
void* (*their_realloc)(void*, std::size_t) = nullptr;

void* moved(void* early_block, void* fresh, std::size_t bytes) noexcept {
  const std::size_t held = early_size(early_block);
  return fresh ? memcpy(fresh, early_block, bytes < held ? bytes : held) : nullptr;
}

void careful_free(void* block) noexcept {
  if (!is_early(block)) their_free(block);
}

void* careful_realloc(void* block, std::size_t bytes) noexcept {
  return is_early(block) ? moved(block, front.next.malloc(bytes), bytes) : their_realloc(block, bytes);
}

/// Somebody holds early blocks: from now on every free and realloc looks.
void look_out_for_early_blocks() noexcept {
  their_free = front.next.free;
  their_realloc = front.next.realloc;
  front.next.free = careful_free;
  front.next.realloc = careful_realloc;
}

}  // namespace

constinit Front front{};
alignas(kAlign) constinit unsigned char early[kEarlyBytes] = {};

bool search_next() noexcept {
  static constinit bool finding = false;
  if (finding) return false;
  finding = true;  // the first call comes from the loader or from main, before there is a second thread
  find(front.next.calloc, "calloc");
  find(front.next.realloc, "realloc");
  find(front.next.free, "free");
  find(front.next.posix_memalign, "posix_memalign");
  find(front.next.aligned_alloc, "aligned_alloc");
  find(front.next.memalign, "memalign");
  find(front.next.valloc, "valloc");
  find(front.next.pvalloc, "pvalloc");
  find(front.next.malloc_usable_size, "malloc_usable_size");
  void* (*found)(std::size_t) = nullptr;
  find(found, "malloc");
  look_for_kernel_calls();
  if (early_used != 0) look_out_for_early_blocks();
  front.next.malloc = found;  // last: it says that all is found
  look_for_operators();
  return found != nullptr;
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

void* resized_early_block(void* block, std::size_t bytes) noexcept {
  void* const fresh = early_block(bytes);
  return block ? moved(block, fresh, bytes) : fresh;
}

}  // namespace mortise::latency
