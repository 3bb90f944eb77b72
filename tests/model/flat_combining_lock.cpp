// If this fails, work given to the flat combining lock is done twice, not at all, or by two threads at a time, or a waiter waits for a
// lock that is open: the shipped lock is run in every interleaving that matters, with waiters that nap at once and with such that
// spin, with requests that are served at once and with such that are left to wait.
#include "mortise/sync/flat_combining_lock.hpp"

#include <gtest/gtest.h>

#include "combining.hpp"
#include "running.hpp"

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

TEST(FlatCombiningLock, TwoThreadsThatNap) { run<Adds<2, 0, 0>>("two threads, napping"); }
TEST(FlatCombiningLock, TwoThreadsThatSpin) { run<Adds<2, 0, 1000>>("two threads, spinning"); }
TEST(FlatCombiningLock, RequestsLeftToWait) { run<Adds<2, 1, 0>>("two threads, left to wait once"); }
TEST(FlatCombiningLock, ThreeThreads) {
  if (kAll) run<Adds<3, 0, 0>>("three threads");  // 6 million steps
}
TEST(FlatCombiningLock, ThreeThreadsLeftToWait) { run<Adds<3, 1, 1000>>("three threads, left to wait once"); }
TEST(FlatCombiningLock, ThreeThreadsThatNapLeftToWait) { run<Adds<3, 1, 0>>("three threads, napping, left to wait once"); }
TEST(FlatCombiningLock, TwoCallsEach) { run<TwiceEach<Adds<2, 0, 0>>>("two calls each"); }
TEST(FlatCombiningLock, TwoCallsEachLeftToWait) { run<TwiceEach<Adds<2, 1, 0>>>("two calls each, left to wait once"); }
TEST(FlatCombiningLock, PlainLockAmongRequests) { run<LockAmong<Adds<2, 0, 0>>>("lock() and unlock() against a request"); }

}  // namespace
}  // namespace mortise::model
