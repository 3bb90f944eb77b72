// A test-and-test-and-set lock: the smallest one; wrong when threads outnumber cores.
#pragma once

#include "mortise/sync/atomics.hpp"
#include "mortise/sync/sync.hpp"

namespace mortise {

/// Blocking, unfair; a waiter burns its core. For very short sections and for places where the kernel cannot be called.
class SpinLock {
 public:
  static constexpr const char* kName = "SpinLock";
  static constexpr Guarantee kGuarantee = Guarantee::blocking;

  void lock() noexcept {
    while (held_.exchange(1, Order::acquire)) {
      while (held_.load(Order::relaxed)) cpu_relax();
    }
  }
  void unlock() noexcept { held_.store(0, Order::release); }  // pairs with the acquire in lock()
  void reset() noexcept { held_.store(0, Order::relaxed); }

 private:
  Atomic<unsigned> held_{0};
};

}  // namespace mortise
