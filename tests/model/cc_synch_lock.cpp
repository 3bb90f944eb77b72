// If this fails, work given to CC-Synch is done twice, not at all, or by two threads at a time, or a waiter
// sleeps for ever: the shipped lock is run in every interleaving that matters, with waiters that sleep at once and with
// such that spin.
#include "mortise/sync/cc_synch_lock.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "shipped.hpp"

namespace mortise::model {
namespace {

template <unsigned Threads, unsigned Served, unsigned Spins>
struct Adds {
  static constexpr unsigned kThreads = Threads;
  CcSynchLock<Served, Spins, Threads + 1> lock;
  Shared<int> total;
  void run(unsigned) {
    auto work = [this]() noexcept { total.set(total.get() + 1); };
    lock.with(work);
  }
  void finish() { require(total.get() == static_cast<int>(Threads), "work was lost or done twice"); }
};

/// One thread takes the lock as fork does, while others give it work.
template <unsigned Threads>
struct LockAmongAdds : Adds<Threads, 64, 0> {
  using Base = Adds<Threads, 64, 0>;
  void run(unsigned thread) {
    if (thread != 0) return Base::run(thread);
    this->lock.lock();
    this->total.set(this->total.get() + 1);
    this->lock.unlock();
  }
};

/// Two calls each, so that nodes come back at the same place on a stack.
struct TwoAddsEach : Adds<2, 64, 0> {
  void run(unsigned thread) {
    Adds::run(thread);
    Adds::run(thread);
  }
  void finish() { require(total.get() == 4, "work was lost or done twice"); }
};

template <class Scenario>
void run(const char* what) {
  const Report report = explore<Scenario>();
  EXPECT_TRUE(report.passed()) << report.text();
  std::printf("%s: %s", what, report.text().c_str());
}

const bool kAll = std::getenv("MORTISE_TEST_ALL") != nullptr;

TEST(CcSynchLock, TwoThreadsThatSleep) { run<Adds<2, 64, 0>>("two threads, sleeping"); }
TEST(CcSynchLock, TwoThreadsThatSpin) { run<Adds<2, 64, 2>>("two threads, spinning"); }
TEST(CcSynchLock, ThreeThreadsThatSleep) { run<Adds<3, 64, 0>>("three threads, sleeping"); }
TEST(CcSynchLock, ThreeThreadsOneServedAtATime) {
  if (kAll) run<Adds<3, 1, 0>>("three threads, one request a holder");  // 20 million steps, as the others of three threads
}
TEST(CcSynchLock, TwoCallsEach) { run<TwoAddsEach>("two calls each"); }
TEST(CcSynchLock, PlainLockAmongRequests) { run<LockAmongAdds<2>>("lock() and unlock() against a request"); }
TEST(CcSynchLock, PlainLockAmongTwoRequests) { run<LockAmongAdds<3>>("lock() and unlock() against two requests"); }

}  // namespace
}  // namespace mortise::model
