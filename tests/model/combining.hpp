// Scenarios for locks whose holder does the work of those who wait.
#pragma once

#include "explorer/explorer.hpp"
#include "mortise/sync/atomics.hpp"

namespace mortise::model {

/// Each thread gives the lock one addition to do.
template <class Lock, unsigned Threads>
struct AddsThrough {
  static constexpr unsigned kThreads = Threads;
  Lock lock;
  Shared<int> total;
  void run(unsigned) {
    auto work = [this]() noexcept { total.set(total.get() + 1); };
    lock.with(work);
  }
  void finish() { require(total.get() == static_cast<int>(Threads), "work was lost or done twice"); }
};

/// One thread takes the lock as fork does, while others give it work.
template <class Adds>
struct LockAmong : Adds {
  void run(unsigned thread) {
    if (thread != 0) return Adds::run(thread);
    this->lock.lock();
    this->total.set(this->total.get() + 1);
    this->lock.unlock();
  }
};

/// Two calls each, so that requests come back at the same place.
template <class Adds>
struct TwiceEach : Adds {
  void run(unsigned thread) {
    Adds::run(thread);
    Adds::run(thread);
  }
  void finish() { require(this->total.get() == 2 * static_cast<int>(Adds::kThreads), "work was lost or done twice"); }
};

}  // namespace mortise::model
