// If this fails, two threads of wfslab get the same span from the reserve, a span is lost on its way, or a thread is kept from
// its memory by others: the pool is run in every interleaving that matters, with each thread stopped for ever at each step.
#include "mortise/sync/wait_free_pool.hpp"

#include <gtest/gtest.h>

#include "running.hpp"

namespace mortise::model {
namespace {

using Pool = WaitFreePool<64, 3>;  // one word, so that all threads meet; three tries

struct Spans {
  Pool pool;
  Shared<int> owned[4];

  unsigned take() {
    unsigned i;
    {
      const StepLimit bound("take", Pool::kTakeSteps);
      i = pool.take();
    }
    if (i == Pool::kNone) return i;
    require(i < 4, "a number came out that never went in");
    require(owned[i].get() == 0, "a number was handed out twice");
    owned[i].set(1);
    return i;
  }
  void put(unsigned i) {
    if (i == Pool::kNone) return;
    owned[i].set(0);
    const StepLimit bound("put", Pool::kPutSteps);
    pool.put(i);
  }
  void check_all(unsigned count) {
    unsigned held = 0;
    for (unsigned i = 0; i < count; ++i) held += static_cast<unsigned>(owned[i].get());
    require(pool.count() + held == count, "a number is lost");
  }
};

struct TakesAndPuts : Spans {
  static constexpr unsigned kThreads = 2;
  TakesAndPuts() { pool.put(0), pool.put(1); }
  void run(unsigned) {
    put(take());
    take();
  }
  void finish() { check_all(2); }
};

struct ThreeTakes : Spans {
  static constexpr unsigned kThreads = 3;
  ThreeTakes() { pool.put(0), pool.put(1), pool.put(2); }
  void run(unsigned) { require(take() != Pool::kNone, "a thread got nothing although there was enough"); }
  void finish() { check_all(3); }
};

/// What one thread wrote into a span, the next one that takes it sees. `kPutting` of the threads put back what they took.
template <unsigned kThreadsT, unsigned kPutting> struct HandedOn : Spans {
  static constexpr unsigned kThreads = kThreadsT;
  HandedOn() { pool.put(0); }
  void run(unsigned thread) {
    const unsigned i = take();
    if (thread < kPutting) put(i);
  }
  void finish() { check_all(1); }
};

/// Numbers are asked for by their names, too.
struct Named : Spans {
  bool take_this(unsigned i) {
    {
      const StepLimit bound("take_this", Pool::kTakeThisSteps);
      if (!pool.take_this(i)) return false;
    }
    require(owned[i].get() == 0, "a number was handed out twice");
    owned[i].set(1);
    return true;
  }
};

/// One thread wants a number by its name and puts it back, while others take whichever there is, `kPutting` of them put it back as well.
template <unsigned kThreadsT, unsigned kPutting> struct TakesByName : Named {
  static constexpr unsigned kThreads = kThreadsT;
  TakesByName() { pool.put(0), pool.put(1); }
  void run(unsigned thread) {
    if (thread == 0) {
      if (take_this(1)) put(1);
      return;
    }
    const unsigned i = take();
    if (thread <= kPutting) put(i);
  }
  void finish() { check_all(2); }
};
/// Two want the same one: it is put back by whoever gets it first.
struct BothByName : Named {
  static constexpr unsigned kThreads = 2;
  BothByName() { pool.put(0); }
  void run(unsigned) {
    if (take_this(0)) put(0);
  }
  void finish() {
    check_all(1);
    require(pool.is_sound(), "a number is not marked");
  }
};

/// At rest every number can be found by the first look, if nobody stopped half-way.
struct Marked : Spans {
  static constexpr unsigned kThreads = 2;
  Marked() { pool.put(0); }
  void run(unsigned) { put(take()); }
  void finish() {
    check_all(1);
    require(pool.is_sound(), "a number is not marked");
  }
};
struct MarkedOfTwo : Marked {  // one puts into the word that another empties
  MarkedOfTwo() { owned[1].set(1); }
  void run(unsigned thread) { thread ? put(1) : void(take()); }
  void finish() {
    check_all(2);
    require(pool.is_sound(), "a number is not marked");
  }
};

TEST(WaitFreePool, WordsWithNumbersAreMarked) {
  for (const Report& report : {explore<Marked>(), explore<MarkedOfTwo>()}) EXPECT_TRUE(report.passed()) << report.text();
}
TEST(WaitFreePool, TakesAndPuts) { check<TakesAndPuts>("take, put, take against the same"); }
TEST(WaitFreePool, ThreeTakes) { check<ThreeTakes>("three takes of three"); }
TEST(WaitFreePool, HandedOn) {
  check<HandedOn<2, 2>>("one number, two threads");
  const Report report = explore<HandedOn<3, 1>>();
  EXPECT_TRUE(report.passed()) << report.text();
  std::printf("one number, three threads, one puts it back: %s", report.text().c_str());
  if (!kAll) return;
  const Report whole = explore<HandedOn<3, 3>>({.executions_max = 4'000'000});
  EXPECT_EQ(whole.failure, "") << whole.text();  // the first four million orders: there are more than can be tried
  std::printf("one number, three threads: %s", whole.text().c_str());
}

TEST(WaitFreePool, TakesByName) {
  check<TakesByName<2, 1>>("one number by its name, against a take and a put");
  check<TakesByName<3, 0>>("... against two takes");
  const Report report = explore<BothByName>();
  EXPECT_TRUE(report.passed()) << report.text();
  std::printf("one number by its name, two threads: %s", report.text().c_str());
}

TEST(WaitFreePool, EveryOrderIsNeeded) {
  const std::vector<std::string> needless =
      needless_orders<TakesAndPuts, ThreeTakes, HandedOn<2, 2>, TakesByName<2, 1>, BothByName, Marked, MarkedOfTwo>("WaitFreePool<");
  EXPECT_EQ(needless, (std::vector<std::string>{}));
}

/// Claims a number by reading and writing: both of two threads may get it.
struct Careless : Spans {
  static constexpr unsigned kThreads = 2;
  Atomic<std::uint64_t> word{1};
  void run(unsigned) {
    if (!word.load(Order::acquire)) return;
    word.store(0, Order::release);
    require(owned[0].get() == 0, "a number was handed out twice");
    owned[0].set(1);
  }
  void finish() {}
};
TEST(WaitFreePool, FindsACarelessClaim) { EXPECT_FALSE(explore<Careless>().passed()); }

}  // namespace
}  // namespace mortise::model
