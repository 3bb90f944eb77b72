// If this fails, work given to the flat combining lock is done twice, not at all, or by two threads at a time, or a waiter waits for a
// lock that is open: the shipped lock is run in every interleaving that matters, with waiters that nap at once and with such that
// spin, with requests that are served at once and with such that are left to wait.
#include "mortise/sync/flat_combining_lock.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "shipped.hpp"

namespace mortise::model {
namespace {

template <unsigned Threads, unsigned Burst, unsigned Spins>
struct Adds {
  static constexpr unsigned kThreads = Threads;
  FlatCombiningLock<Burst, 1, 0, Spins, 1> lock;
  Shared<int> total, seen[Threads];
  void run(unsigned number) {
    auto work = [this, number]() noexcept {
      total.set(total.get() + 1);
      seen[number].set(total.get());
    };
    lock.with(work);
    require(seen[number].get() > 0, "a call returned before its work was done");
  }
  void finish() { require(total.get() == static_cast<int>(Threads), "work was lost or done twice"); }
};

/// One thread takes the lock as fork does, while another gives it work.
struct LockAmongAdds : Adds<2, 0, 0> {
  void run(unsigned thread) {
    if (thread != 0) return Adds::run(thread);
    this->lock.lock();
    this->total.set(this->total.get() + 1);
    this->lock.unlock();
  }
};

/// Two calls each, so that requests come back at the same place on a stack.
template <unsigned Burst> struct TwoAddsEach : Adds<2, Burst, 0> {
  using Base = Adds<2, Burst, 0>;
  void run(unsigned thread) {
    Base::run(thread);
    Base::run(thread);
  }
  void finish() { require(this->total.get() == 4, "work was lost or done twice"); }
};

template <class Scenario>
void run(const char* what) {
  const Report report = explore<Scenario>();
  EXPECT_TRUE(report.passed()) << report.text();
  std::printf("%s: %s", what, report.text().c_str());
}

TEST(FlatCombiningLock, TwoThreadsThatNap) { run<Adds<2, 0, 0>>("two threads, napping"); }
TEST(FlatCombiningLock, TwoThreadsThatSpin) { run<Adds<2, 0, 1000>>("two threads, spinning"); }
TEST(FlatCombiningLock, RequestsLeftToWait) { run<Adds<2, 1, 0>>("two threads, left to wait once"); }
TEST(FlatCombiningLock, ThreeThreads) {
  if (std::getenv("MORTISE_TEST_ALL")) run<Adds<3, 0, 0>>("three threads");  // 26 million steps
}
TEST(FlatCombiningLock, ThreeThreadsLeftToWait) { run<Adds<3, 1, 1000>>("three threads, left to wait once"); }
TEST(FlatCombiningLock, ThreeThreadsThatNapLeftToWait) { run<Adds<3, 1, 0>>("three threads, napping, left to wait once"); }
TEST(FlatCombiningLock, TwoCallsEach) { run<TwoAddsEach<0>>("two calls each"); }
TEST(FlatCombiningLock, TwoCallsEachLeftToWait) { run<TwoAddsEach<1>>("two calls each, left to wait once"); }
TEST(FlatCombiningLock, PlainLockAmongRequests) { run<LockAmongAdds>("lock() and unlock() against a request"); }

}  // namespace
}  // namespace mortise::model
