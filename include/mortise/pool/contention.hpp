// The Probe slot of the classic pools: is contention counted, and where?
//
// A counter that all threads share would itself be the place they contend for. So each thread adds to a line of its
// own, found by its number, and a reader sums the lines. Two threads whose numbers meet share a line; the addition is
// atomic, so nothing is lost.
#pragma once

#include <cstdint>

#include "mortise/pool/thread_record.hpp"
#include "mortise/sync/atomics.hpp"

namespace mortise::pools {

struct Contention {
  std::uint64_t repeats = 0;   ///< exchanges that failed because another thread's succeeded
  std::uint64_t steals = 0;    ///< entries taken from another pool, because the caller's was empty
  std::uint64_t failures = 0;  ///< no pool had an entry
};

/// Nothing is counted, and nothing is there.
struct Uncounted {
  static constexpr bool kCounts = false;
  void repeat() noexcept {}
  void steal() noexcept {}
  void failure() noexcept {}
  Contention sum() const noexcept { return {}; }
};

/// A line for each of `kLines` thread numbers.
template <unsigned kLines = 64>
class CountedByThread {
 public:
  static constexpr bool kCounts = true;
  void repeat() noexcept { mine().repeats.fetch_add(1, Order::relaxed); }
  void steal() noexcept { mine().steals.fetch_add(1, Order::relaxed); }
  void failure() noexcept { mine().failures.fetch_add(1, Order::relaxed); }

  /// Exact when no thread is inside a call.
  Contention sum() const noexcept {
    Contention all;
    for (const Line& line : lines_) {
      all.repeats += line.repeats.load(Order::relaxed);
      all.steals += line.steals.load(Order::relaxed);
      all.failures += line.failures.load(Order::relaxed);
    }
    return all;
  }

 private:
  struct alignas(64) Line {
    Atomic<std::uint64_t> repeats{0}, steals{0}, failures{0};
  };
  Line& mine() noexcept { return lines_[this_thread().number % kLines]; }

  Line lines_[kLines];
};

}  // namespace mortise::pools
