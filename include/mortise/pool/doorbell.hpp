// How a thread that found nothing learns that something came, and how the others find out whether anybody wants to
// know.
//
//   waiter                                    giver
//   1. enter: waiters + 1                     1. put the object where a waiter looks
//   2. seen = rings                           2. ring: fence; waiters? then rings + 1, and wake
//   3. look for an object; there? done
//   4. sleep while rings == seen; go to 2
//   5. leave: waiters - 1
//
// Either the giver sees the waiter, or the waiter sees the object: both write one word and then read the other's, with
// a sequentially consistent fence in between.  [Dekker65]
#pragma once

#include <cstdint>

#include "mortise/sync/atomics.hpp"

namespace mortise::pools {

/// All zero: nobody waits.
class Doorbell {
 public:
  /// Rings are counted from `first` on.
  void begin(std::uint32_t first) noexcept { rings_.store(first, Order::release); }
  /// True for the first to wait.
  bool enter() noexcept {
    const bool first = waiters_.fetch_add(1, Order::relaxed) == 0;
    fence(Order::seq_cst);
    return first;
  }
  /// True for the last.
  bool leave() noexcept { return waiters_.fetch_sub(1, Order::relaxed) == 1; }
  /// Acquire: pairs with the release in ring(), so that whoever heard a ring finds what it was rung for.
  std::uint32_t seen() const noexcept { return rings_.load(Order::acquire); }

  /// Says that something came; true when somebody may sleep on `word()` and must be woken.
  bool ring() noexcept {
    fence(Order::seq_cst);
    if (waiters_.load(Order::relaxed) == 0) [[likely]]
      return false;
    rings_.fetch_add(1, Order::release);
    return true;
  }
  std::uint32_t waiters() const noexcept { return waiters_.load(Order::relaxed); }
  const void* word() noexcept { return rings_.address(); }

 private:
  Atomic<std::uint32_t> waiters_{0};
  Atomic<std::uint32_t> rings_{0};
};

}  // namespace mortise::pools
