// A fair lock: threads are served in the order in which they came. [MellorCrummeyScott91] ticket lock.
#pragma once

#include <cstdint>

#include "mortise/sync/atomics.hpp"
#include "mortise/sync/sync.hpp"

namespace mortise {

/// Two counters: the next ticket, and the one being served. Blocking, first come first served; a waiter burns its core, and all
/// wait for one that is preempted while it is next: for cores that the threads have to themselves.
class TicketLock {
 public:
  static constexpr const char* kName = "TicketLock";
  static constexpr Guarantee kGuarantee = Guarantee::blocking;

  void lock() noexcept {
    const std::uint32_t mine = next_.fetch_add(1, Order::relaxed);
    while (serving_.load(Order::acquire) != mine) cpu_relax();  // pairs with the release in unlock()
  }
  void unlock() noexcept {
    // Only the holder writes it, so a load and a store do.
    serving_.store(serving_.load(Order::relaxed) + 1, Order::release);
  }
  void reset() noexcept {
    next_.store(0, Order::relaxed);
    serving_.store(0, Order::relaxed);
  }

 private:
  Atomic<std::uint32_t> next_{0};
  Atomic<std::uint32_t> serving_{0};
};

}  // namespace mortise
