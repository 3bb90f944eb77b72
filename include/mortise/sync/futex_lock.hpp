// A lock that spins briefly and then sleeps in the kernel: right when threads outnumber cores. [Drepper11] mutex 3.
#pragma once

#include <cstdint>

#include "mortise/core/inline.hpp"
#include "mortise/os/futex.hpp"
#include "mortise/sync/atomics.hpp"
#include "mortise/sync/sync.hpp"

namespace mortise {

/// One word: 0 open, 1 held, 2 held and somebody may sleep. An uncontended pair is one exchange and one exchange.
/// Blocking. Not recursive, not fair.
class FutexLock {
 public:
  static constexpr const char* kName = "FutexLock";
  static constexpr Guarantee kGuarantee = Guarantee::blocking;
  static constexpr unsigned kSpins = 100;

  void lock() noexcept {
    std::uint32_t open = 0;
    if (!state_.compare_exchange_strong(open, 1, Order::acquire, Order::relaxed)) [[unlikely]] lock_slow();
  }
  bool try_lock() noexcept {
    std::uint32_t open = 0;
    return state_.compare_exchange_strong(open, 1, Order::acquire, Order::relaxed);
  }
  /// Gives up after so many naps, of a quarter of a millisecond at most. A wake that came at the end is not lost: the lock is looked at
  /// once more, and whoever has it then finds the 2.
  bool lock_within(unsigned naps) noexcept {
    for (unsigned i = 0; i < kSpins; ++i) {
      if (state_.load(Order::relaxed) == 0 && try_lock()) return true;
      cpu_relax();
    }
    for (; state_.exchange(2, Order::acquire) != 0; --naps) {
      if (naps == 0) return false;
      os::futex_wait(&state_, 2, kNapNs);
    }
    return true;
  }
  void unlock() noexcept {
    // Release: pairs with the acquire of the next lock().
    if (state_.exchange(0, Order::release) == 2) [[unlikely]] os::futex_wake(&state_, 1);
  }
  /// Open, whatever it was: for the child of a fork, where the holder may not exist.
  void reset() noexcept { state_.store(0, Order::relaxed); }

 private:
  MORTISE_COLD void lock_slow() noexcept {
    for (unsigned i = 0; i < kSpins; ++i) {
      if (state_.load(Order::relaxed) == 0 && try_lock()) return;
      cpu_relax();
    }
    while (state_.exchange(2, Order::acquire) != 0) os::futex_wait(&state_, 2);
  }

  static constexpr std::int64_t kNapNs = 250'000;

  Atomic<std::uint32_t> state_{0};
};

}  // namespace mortise
