// The Distribution slot: several pools (sub-heaps, shards, magazines) stand side by side; whose pool serves this call?
//
//   rule                asks                     contention                              cost on the path
//   by_thread_in_turn   the thread's number      threads that share a pool may meet      a load
//   by_thread_hash      the thread's id, hashed  the same; needs no shared counter       a load and a multiplication
//   by_core             the core it runs on      only a preemption inside the operation  a load of the kernel's area
//
// A rule is a pure function of who asks and of how many pools there are. Whoever owns the threads' records fills in the
// asker: the rule keeps no state, so one implementation serves object pools, core caches and sub-heaps.
//
// Threads that only take and threads that only give back are the normal case. Under a rule by thread their pools would
// run empty on one side and full on the other: the owner of the pools must give a block back to the pool it came from,
// or look into the other pools before it says that there is none. Source: [Knuth73] the multiplier, by the golden
// ratio.
//
// Progress: every rule is wait-free.
#pragma once

#include <sched.h>

#include <concepts>
#include <cstdint>

#include "mortise/core/inline.hpp"
#include "mortise/os/rseq.hpp"

namespace mortise {

/// Who asks. `turn`: the thread's number in the order of first calls. `thread`: the kernel's id of the thread. `area`:
/// where the core index lies.
struct Asker {
  const os::RseqArea& area;
  std::uint32_t turn = 0;
  std::uint32_t thread = 0;
};

/// An answer to "whose pool?": a number below `count`, which is not zero. `kMayChange`: whether one thread's answer
/// varies, so that the caller must ask at every call.
template <class R>
concept DistributionRule = requires(const Asker& who, unsigned count) {
  { R::pool_of(who, count) } noexcept -> std::same_as<unsigned>;
  { R::kMayChange } -> std::convertible_to<bool>;
  { R::kName } -> std::convertible_to<const char*>;
};

/// The first thread gets pool 0, the next pool 1, and so on: even, and the same at every run.
struct by_thread_in_turn {
  static constexpr const char* kName = "by_thread_in_turn";
  static constexpr bool kMayChange = false;
  MORTISE_HOT static unsigned pool_of(const Asker& who, unsigned count) noexcept { return who.turn % count; }
};

/// By the thread's id times 2^32 divided by the golden ratio: ids in a row fall far apart. No counter is shared.
struct by_thread_hash {
  static constexpr const char* kName = "by_thread_hash";
  static constexpr bool kMayChange = false;
  static constexpr std::uint32_t kMultiplier = 2654435769u;
  MORTISE_HOT static unsigned pool_of(const Asker& who, unsigned count) noexcept {
    const std::uint32_t hash = who.thread * kMultiplier;
    return static_cast<unsigned>(std::uint64_t{hash} * count >> 32);
  }
};

/// By the core that the thread runs on at this moment. With as many pools as cores, two threads meet in a pool only
/// when one of them is preempted in the middle of an operation; more pools than cores bring nothing.
struct by_core {
  static constexpr const char* kName = "by_core";
  static constexpr bool kMayChange = true;
  MORTISE_HOT static unsigned pool_of(const Asker& who, unsigned count) noexcept {
    if (who.area.is_kernels) [[likely]]
      return os::rseq_index(who.area) % count;
    return core_without_rseq() % count;
  }

 private:
  MORTISE_COLD static unsigned core_without_rseq() noexcept {
    const int cpu = ::sched_getcpu();
    return cpu < 0 ? 0u : static_cast<unsigned>(cpu);
  }
};

static_assert(DistributionRule<by_thread_in_turn> && DistributionRule<by_thread_hash> && DistributionRule<by_core>);

}  // namespace mortise
