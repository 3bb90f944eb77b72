// The allocator behind the layer: the next definition of each function after ours, in the loader's order.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mortise::latency {

struct Next {
  void* (*malloc)(std::size_t);
  void* (*calloc)(std::size_t, std::size_t);
  void* (*realloc)(void*, std::size_t);
  void (*free)(void*);
  int (*posix_memalign)(void**, std::size_t, std::size_t);
  void* (*aligned_alloc)(std::size_t, std::size_t);
  void* (*memalign)(std::size_t, std::size_t);
  void* (*valloc)(std::size_t);
  void* (*pvalloc)(std::size_t);
  std::size_t (*malloc_usable_size)(void*);
};

/// What calls read: two cache lines of one page. A timed call comes so seldom that each further page is a miss of the TLB.
struct alignas(128) Front {
  Next next;
  std::uint64_t every_scale;   // one call in how many is timed, see gap()
  std::uint64_t window_ticks;  // what is known of a thread's faults and switches is fresh for so long
  std::uint64_t pace_ticks;    // so many timed calls as pace() looks at take this long or longer; 0: whatever they take
  bool use_clock_gettime;      // instead of the CPU's counter
};
inline constexpr std::uint64_t kScaleOfOne = 43691;  // two thirds, 0.16, of what gap() takes as 16.16
[[gnu::visibility("hidden")]] extern constinit Front front;

/// True once `next` is filled in. The search itself asks for memory, and is then answered false: from the early blocks.
bool search_next() noexcept;
inline bool find_next() noexcept { return front.next.malloc || search_next(); }

/// What operators of C++ go by: the program's own in front of ours, and those behind us. Looked for once, where the allocator is: to ask
/// the loader later waits for whoever opens a library, who may wait for the caller.
void look_for_operators() noexcept;
/// What of libc the allocator calls the kernel by.
void look_for_kernel_calls() noexcept;

/// Blocks from a small arena of our own, for those who ask while the allocator is being looked for. Never freed: where
/// there are any, `next.free` and `next.realloc` are functions of ours that know them.
void* early_block(std::size_t bytes) noexcept;
inline constexpr std::size_t kEarlyBytes = 1 << 16;
[[gnu::visibility("hidden")]] extern unsigned char early[kEarlyBytes];
inline bool is_early(const void* block) noexcept {
  return reinterpret_cast<std::uintptr_t>(block) - reinterpret_cast<std::uintptr_t>(early) < kEarlyBytes;
}
std::size_t early_size(const void* block) noexcept;
void* resized_early_block(void* block, std::size_t bytes) noexcept;

}  // namespace mortise::latency
