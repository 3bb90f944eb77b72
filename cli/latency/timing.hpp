// How one call is timed. On the path of a call that is not timed there is one thread-local counter and nothing else,
// four instructions and no frame:
//
//   malloc ─► count left[kMalloc] down ─► the allocator
//      └─ below 0 ─► clock ─► the allocator ─► clock ─► bucket ─► slow? what did the kernel do meanwhile (examine)
//
// Which calls are timed is drawn anew each time, from a geometric distribution: a fixed period would meet the
// program's own, and an alternating program would have all its frees timed and none of its mallocs.
//
// Where calls are dense, fewer are timed (pace): each then counts for as many as it stands for, so that what is said of
// all calls stays true.
//
// A timed call takes two readings of the clock and about 90 instructions. What the kernel has done to the thread so far
// is asked for beforehand, because a call that turns out slow wants to know what happened meanwhile; a system call a
// timed call would be most of the layer's cost, so the last answer serves for `front.window_ticks`.
#pragma once

#include <time.h>

#include "cli/latency/next.hpp"
#include "cli/latency/record.hpp"
#include "mortise/core/inline.hpp"
#include "mortise/os/clock.hpp"

namespace mortise::latency {

/// What a thread needs at hand: at most 64 bytes of static TLS.
struct Thread {
  std::int32_t left[kEmpty];   // calls of each kind that go untimed until the next that is; counted below 0 by that one
  std::uint32_t index;
  Record* record;              // null: none yet
  std::uint64_t random;
  std::uint32_t kernel_calls;  // in the call being timed
  std::uint32_t empties;
  bool is_inside;              // a call is being timed: what the allocator calls in turn is part of it
  std::uint8_t stretch;        // gaps are 2^stretch times as long as was asked
  std::uint8_t drawn[kEmpty];  // by how much that of the next timed call of each kind was
  std::uint8_t rounds;         // of destructors, of a thread that ends
};
static_assert(sizeof(Thread) <= 64, "static TLS is scarce");
[[gnu::visibility("hidden")]] extern constinit thread_local Thread self [[gnu::tls_model("initial-exec")]];

/// Counts a call down. True: it is not timed. Before the allocator is known, and where a timed call makes another, the
/// counter is below 0 already, so that this path needs no other check.
MORTISE_HOT bool passes(Kind kind) noexcept { return --self.left[kind] >= 0; }

MORTISE_HOT std::uint64_t clock_now() noexcept {
  if (!front.use_clock_gettime) [[likely]] return os::ticks();
  timespec t;
  ::clock_gettime(CLOCK_MONOTONIC_RAW, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(t.tv_nsec);
}

/// For `left`: this thread is timed no more.
inline constexpr std::int32_t kNever = 0x7fffffff;

/// Gives the thread a record, if timing is on and one is to be had, and has it be inside. False: this call of `kind` is not timed, or it is
/// part of one that is.
bool admit(Thread& t, Kind kind) noexcept;

/// Whether a call of `kind` is timed: then the thread is inside from here to end(). From the first step on, so that where a handler forks
/// amid the call the child has a record for the rest of it (child_began).
MORTISE_HOT bool enter(Thread& t, Kind kind) noexcept {
  const bool was_inside = t.is_inside;
  t.is_inside = true;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  if (t.record && !was_inside) [[likely]] return true;
  t.is_inside = was_inside;
  return admit(t, kind);
}

/// Asks the kernel what it has done to the thread. Gives the moment to time from.
std::uint64_t refresh(Snapshot& known, std::uint64_t now) noexcept;

/// Counts a call that was slow, or seen to end before it began, and finds out what happened meanwhile.
void note_slow(Thread& t, Kind kind, unsigned stretch, std::uint64_t begun, std::uint64_t ended, const void* block,
               std::size_t size, const void* site) noexcept;

/// Times an empty call.
void time_nothing(Thread& t) noexcept;
inline constexpr unsigned kEmptyEvery = 16;  // one beside each timed call would double the cost

/// Timing may take a 512th of a thread's time: where the last `kPaceEvery` timed calls came closer, gaps double, up to
/// eight times as long as was asked; where they came four times as far, they halve.
void pace(Thread& t) noexcept;
inline constexpr unsigned kPaceEvery = 64, kPaceShare = 512, kStretchMost = 3;

/// What `refresh` takes here, and what a timed call does, at best.
std::uint64_t refresh_ticks() noexcept;
std::uint64_t timing_ticks() noexcept;

/// How many calls go untimed: geometric with mean every - 1. -log2 of a uniform number is its leading zeros plus a
/// fraction, here on a straight line, which is off by less than 0.09; its mean is 3/2 where the logarithm's is 1 / ln
/// 2. `every_scale` is two thirds of `every`, as 0.32.
MORTISE_HOT std::int32_t gap(Thread& t) noexcept {
  t.random = t.random * 6364136223846793005u + 1442695040888963407u;
  const std::uint64_t r = t.random | 1;
  const auto zeros = static_cast<unsigned>(__builtin_clzll(r));
  const std::uint64_t minus_log2 = (std::uint64_t{zeros + 1} << 16) - (r << zeros >> 47 & 0xffff);  // 16.16
  const std::uint64_t scale = (front.every_scale << t.stretch) - kScaleOfOne;
  return static_cast<std::int32_t>((minus_log2 * scale) >> 32);
}

/// Draws how many calls of `kind` go untimed after this one, and counts them all. Gives how far this one's gap was
/// stretched: it stands for 2 to the power of that times as many calls as was asked.
MORTISE_HOT unsigned draw(Thread& t, Kind kind) noexcept {
  const unsigned stretch = t.drawn[kind];
  const std::int32_t left = gap(t);
  t.left[kind] = left;
  t.drawn[kind] = t.stretch;
  t.record->sums[kind].calls += static_cast<std::uint64_t>(left) + 1;
  return stretch;
}

/// Gives the moment to time from.
MORTISE_HOT std::uint64_t begin(Thread& t) noexcept {
  t.kernel_calls = 0;
  const std::uint64_t now = clock_now();
  return now - t.record->known.at <= front.window_ticks ? now : refresh(t.record->known, now);
}

MORTISE_HOT void note(Thread& t, Kind kind, unsigned stretch, std::uint64_t begun, std::uint64_t ended,
                      const void* block, std::size_t size, const void* site) noexcept {
  Record& r = *t.record;
  const std::uint64_t ticks = ended - begun;
  if (ticks >= r.examine_from) [[unlikely]] return note_slow(t, kind, stretch, begun, ended, block, size, site);
  r.counts[Buckets::bucket_of(ticks)][kind] += std::uint64_t{1} << stretch;
  Sum& sum = r.sums[kind];
  ++sum.timed;
  sum.ticks += ticks << stretch;
  if (ticks > sum.worst) [[unlikely]] sum.worst = ticks;
}

MORTISE_HOT void end(Thread& t) noexcept {
  if (++t.empties % kEmptyEvery == 0) [[unlikely]] time_nothing(t);
  t.is_inside = false;
}

/// Sizes of blocks by their places, so that a slow free can tell one, where all calls are timed: address / 16 << 20 |
/// size / 8, rounded up.
inline constexpr unsigned kSizesLog2 = 13;
[[gnu::visibility("hidden")]] extern std::uint64_t known_sizes[1 << kSizesLog2];
MORTISE_HOT std::uint64_t& size_slot(const void* block) noexcept {
  return known_sizes[(reinterpret_cast<std::uint64_t>(block) * 0x9E3779B97F4A7C15ull) >> (64 - kSizesLog2)];
}
MORTISE_HOT void know_size(const void* block, std::size_t size) noexcept {
  const std::uint64_t eighths = size > std::size_t{0xfffff} * 8 ? 0xfffff : (size + 7) / 8;
  const std::uint64_t word = (reinterpret_cast<std::uint64_t>(block) >> 4) << 20 | eighths;
  __atomic_store_n(&size_slot(block), word, __ATOMIC_RELAXED);
}

/// Times `call` where it is to be timed, and returns what it returns.
template <class Function>
MORTISE_HOT void* timed_allocation(Kind kind, std::size_t size, const void* site, Function call) noexcept {
  Thread& t = self;
  if (!enter(t, kind)) [[unlikely]] return call();
  const unsigned stretch = draw(t, kind);
  const std::uint64_t begun = begin(t);
  void* const block = call();
  const std::uint64_t ended = clock_now();
  if (front.every_scale == kScaleOfOne) know_size(block, size);
  note(t, kind, stretch, begun, ended, block, size, site);
  end(t);
  return block;
}

template <class Function> MORTISE_HOT void timed_free(void* block, const void* site, Function call) noexcept {
  Thread& t = self;
  if (!enter(t, kFree)) [[unlikely]] return call();
  const unsigned stretch = draw(t, kFree);
  const std::uint64_t begun = begin(t);
  call();
  note(t, kFree, stretch, begun, clock_now(), block, 0, site);
  end(t);
}

/// A malloc, a free or an aligned allocation that does not pass: timed, or the allocator is still to be found.
void* slow_malloc(std::size_t size, const void* site) noexcept;
void slow_free(void* block, const void* site) noexcept;
void* slow_aligned(std::size_t align, std::size_t size, const void* site) noexcept;

}  // namespace mortise::latency
