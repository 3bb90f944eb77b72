// How one call is timed. On the path of a call that is not timed there is one thread-local counter and nothing else:
//
//   malloc ─► left[kMalloc] > 0: count down ─► the allocator
//      └─ else ─► Timing: clock ─► the allocator ─► clock ─► bucket ─► slow? what did the kernel do meanwhile (examine)
//
// Which calls are timed is drawn anew each time, from a geometric distribution: a fixed period would meet the
// program's own, and an alternating program would have all its frees timed and none of its mallocs.
#pragma once

#include <time.h>

#include "cli/latency/record.hpp"
#include "mortise/core/inline.hpp"
#include "mortise/os/clock.hpp"

namespace mortise::latency {

/// What a thread needs at hand: 64 bytes of static TLS.
struct Thread {
  std::uint32_t left[kEmpty];  // calls of each kind that go untimed until the next that is
  std::uint32_t index;
  Record* record;              // null: none yet
  std::uint64_t random;
  std::uint32_t kernel_calls;  // in the call being timed
  std::uint32_t empties;
  bool is_inside;              // a call is being timed: what the allocator calls in turn is part of it
};
static_assert(sizeof(Thread) <= 64, "static TLS is scarce");
extern constinit thread_local Thread self [[gnu::tls_model("initial-exec")]];
extern constinit bool use_clock_gettime;

MORTISE_HOT std::uint64_t clock_now() noexcept {
  if (!use_clock_gettime) [[likely]] return os::ticks();
  timespec t;
  ::clock_gettime(CLOCK_MONOTONIC_RAW, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(t.tv_nsec);
}

/// Gives the thread a record, if timing is on and one is to be had, and draws how many calls of `kind` go untimed
/// after this one. False: this call is not timed.
bool begin(Thread& t, Kind kind) noexcept;

/// Refreshes what is known of the thread's faults and switches, unless it is fresh. Gives the moment to time from.
std::uint64_t fresh_begin(Thread& t, std::uint64_t now) noexcept;

/// Counts one call; looks closer if it was slow.
void note(Thread& t, Kind kind, std::uint64_t begun, std::uint64_t ended, const void* block, std::size_t size,
          const void* site) noexcept;

/// Remembers a block's size, so that a slow free can tell it.
void know_size(const void* block, std::size_t size) noexcept;

/// Times `call` (unless it is part of one that is being timed) and returns what it returns.
template <class Function>
MORTISE_HOT void* timed_allocation(Kind kind, std::size_t size, const void* site, Function call) noexcept {
  Thread& t = self;
  if (t.is_inside || !begin(t, kind)) return call();
  const std::uint64_t begun = fresh_begin(t, clock_now());
  void* const block = call();
  const std::uint64_t ended = clock_now();
  note(t, kind, begun, ended, block, size, site);
  know_size(block, size);
  return block;
}

template <class Function> MORTISE_HOT void timed_free(void* block, const void* site, Function call) noexcept {
  Thread& t = self;
  if (t.is_inside || !begin(t, kFree)) return call();
  const std::uint64_t begun = fresh_begin(t, clock_now());
  call();
  note(t, kFree, begun, clock_now(), block, 0, site);
}

}  // namespace mortise::latency
