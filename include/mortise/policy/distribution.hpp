// The Distribution slot: several pools (sub-heaps, shards, magazines) stand side by side; whose pool serves this call?
//
//   rule                asks                     contention                              cost on the path
//   by_thread_in_turn   the thread's number      threads that share a pool may meet      a load
//   by_thread_hash      the thread's id, hashed  the same; needs no shared counter       a load and a multiplication
//   by_core             the core it runs on      only a preemption inside the operation  a load of the kernel's area
//
// A rule has two halves: the number of who asks, and how numbers are spread over the pools. Both are pure functions;
// whoever owns the threads' records fills in the asker. So one implementation serves object pools (array_of_pools, the
// shards of distributed_pool), core caches (CoreCache: whose magazines, and their colours) and sub-heaps (SubHeaps).
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

/// An answer to "whose pool?". `number_of`: who asks, as a number. `spread`: the pool of that number, below `count`, which
/// is not zero. `kMayChange`: whether one thread's number varies, so that the caller must ask at every call.
template <class R>
concept DistributionRule = requires(const Asker& who, std::uint32_t number, unsigned count) {
  { R::number_of(who) } noexcept -> std::same_as<std::uint32_t>;
  { R::spread(number, count) } noexcept -> std::same_as<unsigned>;
  { R::kMayChange } -> std::convertible_to<bool>;
  { R::kName } -> std::convertible_to<const char*>;
};

/// A rule that gives each asker a pool of its own as long as there are enough: what a cache asks for whose pools only
/// one thread at a time may touch.
template <class R>
concept SeparatingRule = DistributionRule<R> && requires { R::kSeparates; };

/// The pool of `count` that `Rule` names.
template <DistributionRule Rule>
MORTISE_HOT unsigned pool_of(const Asker& who, unsigned count) noexcept {
  return Rule::spread(Rule::number_of(who), count);
}

/// Numbers in a row go to pools in a row.
struct SpreadInTurn {
  MORTISE_HOT static constexpr unsigned spread(std::uint32_t number, unsigned count) noexcept { return number % count; }
};

/// The first thread gets pool 0, the next pool 1, and so on: even, and the same at every run.
struct by_thread_in_turn : SpreadInTurn {
  static constexpr const char* kName = "by_thread_in_turn";
  static constexpr bool kMayChange = false;
  static constexpr bool kSeparates = true;
  using SpreadInTurn::spread;
  MORTISE_HOT static std::uint32_t number_of(const Asker& who) noexcept { return who.turn; }
};

/// By the thread's id times 2^32 divided by the golden ratio: ids in a row fall far apart. No counter is shared.
struct by_thread_hash {
  static constexpr const char* kName = "by_thread_hash";
  static constexpr bool kMayChange = false;
  static constexpr std::uint32_t kMultiplier = 2654435769u;
  MORTISE_HOT static std::uint32_t number_of(const Asker& who) noexcept { return who.thread; }
  MORTISE_HOT static constexpr unsigned spread(std::uint32_t number, unsigned count) noexcept {
    const std::uint32_t hash = number * kMultiplier;
    return static_cast<unsigned>(std::uint64_t{hash} * count >> 32);
  }
};

/// By the core that the thread runs on at this moment. With as many pools as cores, two threads meet in a pool only
/// when one of them is preempted in the middle of an operation; more pools than cores bring nothing.
struct by_core : SpreadInTurn {
  static constexpr const char* kName = "by_core";
  static constexpr bool kMayChange = true;
  static constexpr bool kSeparates = true;
  using SpreadInTurn::spread;
  MORTISE_HOT static std::uint32_t number_of(const Asker& who) noexcept {
    if (who.area.is_kernels) [[likely]]
      return os::rseq_index(who.area);
    return core_without_rseq();
  }

 private:
  MORTISE_COLD static std::uint32_t core_without_rseq() noexcept {
    const int cpu = ::sched_getcpu();
    return cpu < 0 ? 0u : static_cast<std::uint32_t>(cpu);
  }
};

static_assert(SeparatingRule<by_thread_in_turn> && DistributionRule<by_thread_hash> && SeparatingRule<by_core>);

}  // namespace mortise
