// If this fails, work given to CC-Synch is done twice, not at all, or by two threads at a time, or a waiter
// sleeps for ever: the shipped lock is run in every interleaving that matters, with waiters that sleep at once and with
// such that spin.
#include "mortise/sync/cc_synch_lock.hpp"

#include <gtest/gtest.h>

#include "combining.hpp"
#include "running.hpp"

namespace mortise::model {
namespace {

template <unsigned Threads, unsigned Served, unsigned Spins> using Adds = AddsThrough<CcSynchLock<Served, Spins, Threads + 1>, Threads>;

TEST(CcSynchLock, TwoThreadsThatSleep) { run<Adds<2, 64, 0>>("two threads, sleeping"); }
TEST(CcSynchLock, TwoThreadsThatSpin) { run<Adds<2, 64, 2>>("two threads, spinning"); }
TEST(CcSynchLock, ThreeThreadsThatSleep) { run<Adds<3, 64, 0>>("three threads, sleeping"); }
TEST(CcSynchLock, ThreeThreadsOneServedAtATime) {
  if (kAll) run<Adds<3, 1, 0>>("three threads, one request a holder");  // 20 million steps, as the others of three threads
}
TEST(CcSynchLock, TwoCallsEach) { run<TwiceEach<Adds<2, 64, 0>>>("two calls each"); }
TEST(CcSynchLock, PlainLockAmongRequests) { run<LockAmong<Adds<2, 64, 0>>>("lock() and unlock() against a request"); }
TEST(CcSynchLock, PlainLockAmongTwoRequests) { run<LockAmong<Adds<3, 64, 0>>>("lock() and unlock() against two requests"); }

}  // namespace
}  // namespace mortise::model
