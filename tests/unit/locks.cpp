// If this failed, two threads would be in one critical section at once, or a waiter would be forgotten.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "mortise/sync/cc_synch_lock.hpp"
#include "mortise/sync/combining_lock.hpp"
#include "mortise/sync/flat_combining_lock.hpp"
#include "mortise/sync/fork_attempt.hpp"
#include "mortise/sync/futex_lock.hpp"
#include "mortise/sync/mcs_lock.hpp"
#include "mortise/sync/spin_lock.hpp"
#include "mortise/sync/ticket_lock.hpp"

namespace mortise::test {
namespace {

template <class L> class Locks : public ::testing::Test {};
using Kinds = ::testing::Types<FutexLock, McsLock, SpinLock, TicketLock, CombiningLock<>, FlatCombiningLock<>, CcSynchLock<>>;
struct Names {
  template <class L> static std::string GetName(int) { return L::kName; }
};
TYPED_TEST_SUITE(Locks, Kinds, Names);

/// How often each thread comes. Who spins in turn waits a time slice for whoever is next and off its core: minutes, on a busy machine.
template <class L> constexpr int kTimes = std::is_same_v<L, McsLock> || std::is_same_v<L, TicketLock> ? 2'000 : 20'000;

TYPED_TEST(Locks, LetOneThreadInAtATime) {
  constexpr int kEach = kTimes<TypeParam>;
  TypeParam lock;
  std::size_t count = 0;  // plain on purpose
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < kEach; ++n) {
        Held<TypeParam> held(lock);
        ++count;
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(count, 2u * kEach);
}

TYPED_TEST(Locks, HaveEachWorkDoneOnce) {
  constexpr int kEach = kTimes<TypeParam>;
  TypeParam lock;
  std::size_t count = 0;
  std::vector<std::thread> threads;
  std::vector<std::size_t> last(3);
  for (std::size_t i = 0; i < last.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int n = 0; n < kEach; ++n) last[i] = with(lock, [&] { return ++count; });
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(count, 3u * kEach);
  EXPECT_EQ(*std::max_element(last.begin(), last.end()), 3u * kEach) << "a result went to another thread";
}

TYPED_TEST(Locks, AreOpenAfterAReset) {
  TypeParam lock;
  lock.lock();
  lock.reset();  // as in the child of a fork
  lock.lock();
  lock.unlock();
}

template <class L> class TimedLocks : public ::testing::Test {};
using TimedKinds = ::testing::Types<FutexLock, FlatCombiningLock<>>;
TYPED_TEST_SUITE(TimedLocks, TimedKinds, Names);

TYPED_TEST(TimedLocks, AreGivenUp) {
  TypeParam lock;
  EXPECT_TRUE(lock.lock_within(0));
  EXPECT_FALSE(lock.lock_within(0));
  EXPECT_FALSE(lock.lock_within(2));
  lock.unlock();
  EXPECT_TRUE(lock.lock_within(2));
  lock.unlock();
}

/// Threads that give up leave nobody behind who sleeps.
TYPED_TEST(TimedLocks, AreGivenUpBesideOthers) {
  TypeParam lock;
  std::size_t count = 0, given_up = 0;  // plain on purpose
  std::vector<std::thread> threads;
  for (unsigned naps : {0u, 1u, 2u})
    threads.emplace_back([&, naps] {
      for (int n = 0; n < 20'000; ++n) {
        const bool is_held = lock.lock_within(naps);
        if (!is_held) lock.lock();
        ++(is_held ? count : given_up);
        lock.unlock();
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(count + given_up, 60'000u);
}

/// As a stack would: three locks in order, of which somebody else has one.
TEST(ForkAttempt, HoldsAllOrNone) {
  for (std::size_t others = 0; others <= 3; ++others) {
    FutexLock locks[3], beside;
    if (others < 3) locks[others].lock();
    {
      const ForkAttempt attempt(1);
      for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(hold(locks[i]), i < others);
      EXPECT_EQ(attempt.has_failed(), others < 3);
      std::thread([&] { EXPECT_TRUE(hold(beside)), let_go(beside); }).join();  // it makes no attempt
      for (std::size_t i = 3; i-- > 0;) let_go(locks[i]);
      EXPECT_FALSE(attempt.has_failed());
    }
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(locks[i].try_lock(), i != others);
  }
}

}  // namespace
}  // namespace mortise::test
