// If this fails, the explorer's memory is not the one that C++ programs run on: each classic litmus program must show
// exactly the outcomes that C++20 allows (load buffering apart, which the model leaves out as RC11 does), no more and
// no fewer.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "explorer/explorer.hpp"
#include "mortise/sync/atomics.hpp"

namespace mortise::model {
namespace {

constexpr Order kRelaxed = Order::relaxed, kAcquire = Order::acquire, kRelease = Order::release, kAll = Order::seq_cst;

std::set<std::string> g_outcomes;

/// What a litmus program has: two or three words, and four registers that make the outcome.
struct Litmus {
  Atomic<int> x, y, z;
  int r[4] = {0, 0, 0, 0};
  unsigned registers = 2;
  void finish() {
    std::string outcome;
    for (unsigned i = 0; i < registers; ++i) outcome += std::to_string(r[i]);
    g_outcomes.insert(outcome);
  }
};

template <class Program>
std::set<std::string> outcomes(Options options = {}) {
  g_outcomes.clear();
  const Report report = explore<Program>(options);
  EXPECT_TRUE(report.passed()) << report.text();
  return g_outcomes;
}

using Set = std::set<std::string>;

template <Order Store, Order Load, bool Fenced>
struct StoreBuffering : Litmus {
  static constexpr unsigned kThreads = 2;
  void run(unsigned thread) {
    (thread == 0 ? x : y).store(1, Store);
    if (Fenced) fence(kAll);
    r[thread] = (thread == 0 ? y : x).load(Load);
  }
};

TEST(MemoryModel, StoreBufferingNeedsSequentialConsistency) {
  const Set weak{"00", "01", "10", "11"}, strong{"01", "10", "11"};
  EXPECT_EQ((outcomes<StoreBuffering<kRelaxed, kRelaxed, false>>()), weak);
  EXPECT_EQ((outcomes<StoreBuffering<kRelease, kAcquire, false>>()), weak);
  EXPECT_EQ((outcomes<StoreBuffering<kAll, kAcquire, false>>()), weak);
  EXPECT_EQ((outcomes<StoreBuffering<kAll, kAll, false>>()), strong);
  EXPECT_EQ((outcomes<StoreBuffering<kRelaxed, kRelaxed, true>>()), strong);
}

template <Order Store, Order Load, bool Fences>
struct MessagePassing : Litmus {
  static constexpr unsigned kThreads = 2;
  void run(unsigned thread) {
    if (thread == 0) {
      x.store(1, kRelaxed);
      if (Fences) fence(kRelease);
      y.store(1, Store);
    } else {
      r[0] = y.load(Load);
      if (Fences) fence(kAcquire);
      r[1] = x.load(kRelaxed);
    }
  }
};

TEST(MemoryModel, MessagePassingNeedsReleaseAndAcquire) {
  const Set weak{"00", "01", "10", "11"}, strong{"00", "01", "11"};
  EXPECT_EQ((outcomes<MessagePassing<kRelaxed, kRelaxed, false>>()), weak);
  EXPECT_EQ((outcomes<MessagePassing<kRelease, kRelaxed, false>>()), weak);
  EXPECT_EQ((outcomes<MessagePassing<kRelaxed, kAcquire, false>>()), weak);
  EXPECT_EQ((outcomes<MessagePassing<kRelease, kAcquire, false>>()), strong);
  EXPECT_EQ((outcomes<MessagePassing<kRelaxed, kRelaxed, true>>()), strong);
}

struct LoadBuffering : Litmus {
  static constexpr unsigned kThreads = 2;
  void run(unsigned thread) {
    r[thread] = (thread == 0 ? x : y).load(kRelaxed);
    (thread == 0 ? y : x).store(1, kRelaxed);
  }
};

TEST(MemoryModel, LoadBufferingIsLeftOutAsInRc11) { EXPECT_EQ(outcomes<LoadBuffering>(), (Set{"00", "01", "10"})); }

struct TwoPlusTwoWrites : Litmus {
  static constexpr unsigned kThreads = 2;
  void run(unsigned thread) {
    (thread == 0 ? x : y).store(1, kRelaxed);
    (thread == 0 ? y : x).store(2, kRelaxed);
  }
  void finish() {
    r[0] = x.load(kRelaxed);
    r[1] = y.load(kRelaxed);
    Litmus::finish();
  }
};

TEST(MemoryModel, StoresMayStandInAnOrderThatNoInterleavingGives) {
  EXPECT_EQ(outcomes<TwoPlusTwoWrites>(), (Set{"11", "12", "21", "22"}));
}

template <Order Store, Order Load>
struct IndependentReads : Litmus {
  static constexpr unsigned kThreads = 4;
  IndependentReads() { registers = 4; }
  void run(unsigned thread) {
    if (thread == 0) x.store(1, Store);
    if (thread == 1) y.store(1, Store);
    if (thread == 2) r[0] = x.load(Load), r[1] = y.load(Load);
    if (thread == 3) r[2] = y.load(Load), r[3] = x.load(Load);
  }
};

TEST(MemoryModel, IndependentReadsAgreeOnlyUnderSequentialConsistency) {
  EXPECT_EQ((outcomes<IndependentReads<kRelease, kAcquire>>()).size(), 16u);
  const Set strong = outcomes<IndependentReads<kAll, kAll>>();
  EXPECT_EQ(strong.size(), 15u);
  EXPECT_FALSE(strong.contains("1010"));
}

struct Coherence : Litmus {
  static constexpr unsigned kThreads = 2;
  void run(unsigned thread) {
    if (thread == 0) x.store(1, kRelaxed), x.store(2, kRelaxed);
    else r[0] = x.load(kRelaxed), r[1] = x.load(kRelaxed);
  }
};

TEST(MemoryModel, OneWordNeverRunsBackwards) {
  EXPECT_EQ(outcomes<Coherence>(), (Set{"00", "01", "02", "11", "12", "22"}));
}

template <bool Update>
struct ReleaseSequence : Litmus {
  static constexpr unsigned kThreads = 3;
  void run(unsigned thread) {
    if (thread == 0) x.store(1, kRelaxed), y.store(1, kRelease);
    if (thread == 1) {
      int expected = 1;
      if (Update) y.compare_exchange_strong(expected, 2, kRelaxed);
      else if (y.load(kRelaxed) == 1) y.store(2, kRelaxed);
    }
    if (thread == 2) r[0] = y.load(kAcquire), r[1] = x.load(kRelaxed);
  }
};

TEST(MemoryModel, AnUpdatePassesOnWhatItReadButAStoreDoesNot) {
  EXPECT_FALSE((outcomes<ReleaseSequence<true>>()).contains("20"));
  EXPECT_TRUE((outcomes<ReleaseSequence<false>>()).contains("20"));
}

struct Causality : Litmus {
  static constexpr unsigned kThreads = 3;
  void run(unsigned thread) {
    if (thread == 0) x.store(1, kRelaxed);
    if (thread == 1 && x.load(kRelaxed) == 1) y.store(1, kRelease);
    if (thread == 2) r[0] = y.load(kAcquire), r[1] = x.load(kRelaxed);
  }
};

TEST(MemoryModel, WhatAReleasingThreadReadIsSeenToo) { EXPECT_EQ(outcomes<Causality>(), (Set{"00", "01", "11"})); }

struct Updates : Litmus {
  static constexpr unsigned kThreads = 3;
  void run(unsigned) { x.fetch_add(1, kRelaxed); }
  void finish() {
    r[0] = x.load(kRelaxed);
    Litmus::finish();
  }
};

TEST(MemoryModel, UpdatesAreNeverLost) { EXPECT_EQ(outcomes<Updates>(), Set{"30"}); }

struct Weak : Litmus {
  static constexpr unsigned kThreads = 1;
  void run(unsigned) {
    int expected = 0;
    r[0] = x.compare_exchange_weak(expected, 1, kRelaxed);
  }
};

TEST(MemoryModel, AWeakCompareExchangeMayFailWithinItsBudget) {
  EXPECT_EQ(outcomes<Weak>(), Set{"10"});
  EXPECT_EQ(outcomes<Weak>({.spurious_failures = 1}), (Set{"00", "10"}));
}

struct Halves {
  std::uint64_t low, high;
};

struct TornPair : Litmus {
  static constexpr unsigned kThreads = 2;
  AtomicPair<Halves> pair;
  void run(unsigned thread) {
    if (thread == 0) {
      Halves expected{0, 0};
      pair.compare_exchange(expected, {1, 1});
    } else {
      const Halves seen = pair.load_halves(Order::acquire);
      r[0] = static_cast<int>(seen.low);
      r[1] = static_cast<int>(seen.high);
      Halves expected = seen;
      if (seen.low != seen.high)
        require(!pair.compare_exchange(expected, {9, 9}), "a torn pair was taken for a whole one");
    }
  }
};

TEST(MemoryModel, HalvesMayBeOfTwoMomentsButACompareExchangeNeverIs) {
  EXPECT_EQ(outcomes<TornPair>(), (Set{"00", "01", "11"}));
}

struct Waiting : Litmus {
  static constexpr unsigned kThreads = 2;
  void run(unsigned thread) {
    if (thread == 0) {
      x.store(1, kRelaxed);
      x.store(2, kRelease);
    } else {
      while (x.load(kAcquire) != 2) cpu_relax();
      r[0] = 1;
    }
  }
};

TEST(MemoryModel, AWaitLoopGoesOnWhenItsWordChanges) {
  EXPECT_EQ(outcomes<Waiting>(), Set{"10"});
  const Report stopped = explore<Waiting>({.freeze = true});
  EXPECT_TRUE(stopped.found("waits for ever for a stopped thread")) << stopped.text();
}

struct Patience : Litmus {
  static constexpr unsigned kThreads = 2;
  void run(unsigned thread) {
    if (thread == 0) return;
    for (int i = 0; i < 10 && x.load(kAcquire) == 0; ++i) cpu_relax();
    r[0] = 1;
  }
};

TEST(MemoryModel, AWaitLoopThatGivesUpIsNotTakenForEndless) { EXPECT_EQ(outcomes<Patience>(), Set{"10"}); }

struct Replayed {
  static constexpr unsigned kThreads = 2;
  Atomic<int> x;
  void run(unsigned thread) {
    if (thread == 0) x.store(1, kRelaxed), x.store(2, kRelaxed);
    else require(x.load(kRelaxed) != 1, "saw the middle");
  }
  void finish() {}
};

TEST(MemoryModel, AFailingScheduleReplaysToTheSameSteps) {
  const Report first = explore<Replayed>();
  ASSERT_TRUE(first.found("saw the middle"));
  const Report again = explore<Replayed>({.replay = first.schedule});
  EXPECT_EQ(again.failure, first.failure);
  EXPECT_EQ(again.steps_text, first.steps_text);
  EXPECT_EQ(again.schedule, first.schedule);
  EXPECT_TRUE(explore<Replayed>({.replay = "nonsense"}).found("cannot be read"));
  EXPECT_TRUE(explore<Replayed>({.replay = "7"}).found("does not fit"));
}

}  // namespace
}  // namespace mortise::model
