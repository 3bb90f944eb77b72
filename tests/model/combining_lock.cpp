// If this fails, work given to the combining lock is done twice, not at all, or by two threads at a time, or a waiter
// sleeps for ever: the shipped lock is run in every interleaving that matters, with waiters that sleep at once and with
// such that spin.
#include "mortise/sync/combining_lock.hpp"

#include <gtest/gtest.h>

#include "combining.hpp"
#include "running.hpp"

namespace mortise::model {
namespace {

template <unsigned Threads, unsigned Served, unsigned Spins> using Adds = AddsThrough<CombiningLock<Served, Spins>, Threads>;

TEST(CombiningLock, TwoThreadsThatSleep) { run<Adds<2, 64, 0>>("two threads, sleeping"); }
TEST(CombiningLock, TwoThreadsThatSpin) { run<Adds<2, 64, 2>>("two threads, spinning"); }
TEST(CombiningLock, ThreeThreadsThatSleep) { run<Adds<3, 64, 0>>("three threads, sleeping"); }
TEST(CombiningLock, ThreeThreadsOneServedAtATime) { run<Adds<3, 1, 0>>("three threads, one request a holder"); }
TEST(CombiningLock, TwoCallsEach) { run<TwiceEach<Adds<2, 64, 0>>>("two calls each"); }
TEST(CombiningLock, PlainLockAmongRequests) { run<LockAmong<Adds<2, 64, 0>>>("lock() and unlock() against a request"); }
TEST(CombiningLock, PlainLockAmongTwoRequests) { run<LockAmong<Adds<3, 64, 0>>>("lock() and unlock() against two requests"); }

}  // namespace
}  // namespace mortise::model
