// If this fails, a program that shares objects through the fast pool gets one object twice, loses one, waits for ever,
// or keeps memory it was told to give back.
#include "mortise/pool.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "support/race.hpp"

namespace mortise {
namespace {

constexpr std::int64_t kMs = 1'000'000;

struct Message {
  std::uint64_t words[8] = {};
  std::uint64_t sum = 0;
};
using Pool = distributed_pool<Message>;

/// The pool as the shared test bodies see it: raw pointers.
struct Raw {
  using value_type = Message;
  Pool& pool;
  Message* try_acquire() { return pool.acquire_raw(); }
  void release(Message* m) { pool.release(m); }
};

class Fronts : public testing::TestWithParam<pool_front> {
 protected:
  pool_options options(std::uint32_t maximum) const {
    pool_options o;
    o.maximum = maximum;
    o.front = GetParam();
    return o;
  }
};
std::string name_of_front(const testing::TestParamInfo<pool_front>& front) {
  const char* const names[] = {"automatic", "cores", "threads", "cpus", "none"};
  return names[static_cast<int>(front.param)];
}
INSTANTIATE_TEST_SUITE_P(Every, Fronts,
                         testing::Values(pool_front::automatic, pool_front::threads, pool_front::cpus,
                                         pool_front::none),
                         name_of_front);

TEST_P(Fronts, GivesEachObjectOnceAndThenNone) {
  Pool pool(options(1000));
  ASSERT_TRUE(pool);
  std::set<Message*> seen;
  for (int i = 0; i < 1000; ++i) {
    Message* const m = pool.acquire_raw();
    ASSERT_NE(m, nullptr) << "of 1000 only " << i;
    EXPECT_TRUE(seen.insert(m).second);
    EXPECT_TRUE(pool.owns(m));
    EXPECT_EQ(pool.at(pool.index_of(m)), m);
  }
  EXPECT_EQ(pool.acquire_raw(), nullptr);
  EXPECT_EQ(pool.statistics().in_use, 1000u);
  EXPECT_EQ(pool.statistics().failures, 1u);
  for (Message* m : seen) pool.release(m);
  EXPECT_EQ(pool.statistics().in_use, 0u);
  EXPECT_EQ(pool.statistics().idle, 1000u);
  EXPECT_GE(pool.statistics().high_water, 1000u);
}

TEST_P(Fronts, ThreadsNeverShareAnObject) {
  Pool pool(options(200));
  Raw raw{pool};
  EXPECT_EQ(test::race(raw, 8, 20000), 0u);
  EXPECT_EQ(pool.statistics().in_use, 0u);
  unsigned left = 0;
  while (pool.acquire_raw()) ++left;
  EXPECT_EQ(left, 200u) << "objects were lost";
}

TEST_P(Fronts, PreemptionAndMigrationChangeNothing) {
  Pool pool(options(200));
  Raw raw{pool};
  {
    const test::Antagonists antagonists;
    EXPECT_EQ(test::race(raw, 6, 30000), 0u);
  }
  EXPECT_EQ(pool.statistics().in_use, 0u);
}

TEST_P(Fronts, AFewObjectsServeManyThreadsByStealing) {
  Pool pool(options(3));
  Raw raw{pool};
  EXPECT_EQ(test::race(raw, 8, 2000), 0u);
  unsigned left = 0;
  while (pool.acquire_raw()) ++left;
  EXPECT_EQ(left, 3u);
}

TEST_P(Fronts, ProducersAndConsumersFinishWithOneSpareInAHundred) {
  Pool pool(options(101));
  Raw raw{pool};
  EXPECT_EQ(test::hand_over(raw, 2, 100, 20000), 0u);
  EXPECT_EQ(pool.statistics().in_use, 0u);
}

TEST_P(Fronts, ManyProducersAndConsumersOnFewCoresNeverHoldTheSameObject) {
  Pool pool(options(8192));
  Raw raw{pool};
  EXPECT_EQ(test::hand_over(raw, 6, 6 * 256, 100'000), 0u);
  EXPECT_EQ(pool.statistics().in_use, 0u);
}

TEST_P(Fronts, WhatLiesBeforeAnotherThreadIsFoundBeforeFailing) {
  Pool pool(options(64));
  std::vector<Message*> mine;
  while (Message* m = pool.acquire_raw()) mine.push_back(m);
  ASSERT_EQ(mine.size(), 64u);
  std::thread([&] {
    for (Message* m : mine) pool.release(m);
  }).join();
  for (int i = 0; i < 64; ++i) EXPECT_NE(pool.acquire_raw(), nullptr) << i;
}

TEST_P(Fronts, WaitersAreWokenByAnyRelease) {
  Pool pool(options(2));
  constexpr int kThreads = 6, kRounds = 2000;
  std::atomic<int> failures{0};
  std::vector<std::thread> all;
  for (int t = 0; t < kThreads; ++t) {
    all.emplace_back([&] {
      for (int i = 0; i < kRounds; ++i) {
        auto m = pool.acquire_for(Pool::kForEver);
        if (!m) ++failures;
        else m->words[0]++;
        if (i % 16 == 0) std::this_thread::yield();
      }
    });
  }
  for (auto& t : all) t.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(pool.statistics().in_use, 0u);
  // The magazines are open again: repeated use does not go to the shared part.
  for (int i = 0; i < 4; ++i) pool.release(pool.acquire_raw());
}

TEST_P(Fronts, ADeadlineThatHasGoneByIsNotWaitedFor) {
  Pool pool(options(1));
  Message* const m = pool.acquire_raw();
  for (const std::int64_t ns : {std::int64_t{0}, std::int64_t{-1}, -5 * kMs, INT64_MIN}) EXPECT_FALSE(pool.acquire_for(ns)) << ns;
  EXPECT_EQ(pool.statistics().waits, 0u);
  pool.release(m);
  EXPECT_TRUE(pool.acquire_for(-1)) << "what is there is given";
}

TEST_P(Fronts, AWaitEndsInTime) {
  Pool pool(options(1));
  Message* const m = pool.acquire_raw();
  EXPECT_FALSE(pool.acquire_for(2 * kMs));
  const pool_statistics s = pool.statistics();
  EXPECT_EQ(s.waits, 1u);
  EXPECT_EQ(s.timeouts, 1u);
  EXPECT_GE(s.wait_ns, 2u * kMs);
  std::uint64_t counted = 0;
  for (const auto n : s.wait_histogram) counted += n;
  EXPECT_EQ(counted, 1u);
  pool.release(m);
  EXPECT_TRUE(pool.acquire_for(0));
}

TEST_P(Fronts, TheChildOfAForkGoesOn) {
  Pool pool(options(256));
  std::atomic<bool> stop{false};
  std::vector<std::thread> busy;
  for (int t = 0; t < 3; ++t) {
    busy.emplace_back([&] {
      while (!stop) {
        Message* held[40];
        for (auto& m : held) m = pool.acquire_raw();
        for (auto* m : held)
          if (m) pool.release(m);
        if (auto m = pool.acquire_for(kMs / 10)) m->words[0] = 1;
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      // At most what three threads held or carried is gone: 3 times 40, and a chain each.
      int got = 0;
      std::set<Message*> seen;
      while (Message* m = pool.acquire_raw()) got += seen.insert(m).second;
      for (Message* m : seen) pool.release(m);
      const bool waits = static_cast<bool>(pool.acquire_for(50 * kMs));
      pool.trim();
      _exit(got >= 256 - 3 * (40 + 64) && got <= 256 && waits ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "round " << i << " status " << status;
  }
  stop = true;
  for (auto& t : busy) t.join();
  EXPECT_EQ(pool.statistics().in_use, 0u);
}

TEST_P(Fronts, ThreadsThatEndLeaveNothingBehind) {
  Pool pool(options(100));
  for (int i = 0; i < 300; ++i) std::thread([&] { pool.release(pool.acquire_raw()); }).join();
  std::vector<Message*> all;
  while (Message* m = pool.acquire_raw()) all.push_back(m);
  EXPECT_EQ(all.size(), 100u);
}

TEST_P(Fronts, TrimGivesPagesBackAndThePoolGoesOn) {
  Pool pool(options(4096));
  std::vector<Message*> all;
  while (Message* m = pool.acquire_raw()) all.push_back(m);
  Message* const kept = all.back();
  all.pop_back();
  for (Message* m : all) pool.release(m);
  const std::size_t bytes = pool.trim();
  EXPECT_GE(bytes, 4000 * sizeof(Message) / 2);
  EXPECT_EQ(kept->sum, 0u);
  pool.release(kept);
  std::set<Message*> again;
  while (Message* m = pool.acquire_raw()) again.insert(m);
  EXPECT_EQ(again.size(), 4096u);
}

TEST(DistributedPool, TakesTheFrontThatTheMachineHas) {
  const char* const tunables = std::getenv("GLIBC_TUNABLES");
  const bool refused = tunables && std::string(tunables).find("rseq=0") != std::string::npos;
  Pool pool({.maximum = 10});
  if (refused) EXPECT_EQ(pool.front(), pool_front::threads) << "restartable sequences were turned off";
  else EXPECT_TRUE(pool.front() == pool_front::cores || pool.front() == pool_front::threads);
  EXPECT_TRUE(pool.try_acquire());
}

TEST(DistributedPool, HandlesGiveBackOnAnyThread) {
  Pool pool({.maximum = 2});
  {
    auto a = pool.try_acquire();
    ASSERT_TRUE(a);
    a->sum = 7;
    auto b = std::move(a);
    EXPECT_FALSE(a);
    EXPECT_EQ(b->sum, 7u);
    std::thread([m = std::move(b)]() mutable { m.reset(); }).join();
    EXPECT_EQ(pool.statistics().in_use, 0u);
    b = pool.try_acquire();
    b = pool.try_acquire();
    EXPECT_EQ(pool.statistics().in_use, 1u);
    Message* const raw = b.release();
    EXPECT_FALSE(b);
    pool.release(raw);
  }
  {
    std::unique_ptr<Message, pool_deleter<Pool>> unique(pool.acquire_raw(), pool.deleter());
    std::shared_ptr<Message> shared(pool.acquire_raw(), pool.deleter());
    EXPECT_EQ(pool.statistics().in_use, 2u);
    while (pool.acquire_raw()) {
    }
    std::shared_ptr<Message> none(pool.acquire_raw(), pool.deleter());
    EXPECT_EQ(none, nullptr) << "and its deleter is called with null";
    for (std::uint32_t i = 0; i < pool.maximum(); ++i)
      if (pool.at(i) != unique.get() && pool.at(i) != shared.get()) pool.release(pool.at(i));
  }
  EXPECT_EQ(pool.statistics().in_use, 0u);
}

TEST(DistributedPool, ConstructsEachTimeWithTheArgumentsGiven) {
  struct Named {
    std::string name;
    explicit Named(std::string n) : name(std::move(n)) {}
  };
  distributed_pool<Named> pool({.maximum = 3});
  auto a = pool.try_acquire("a name long enough to be on the heap, which is freed with the object");
  ASSERT_TRUE(a);
  EXPECT_EQ(a->name.substr(0, 6), "a name");
}

/// Has a way to fail, and says at which call.
struct Picky : constructed_each_time<int> {
  bool refuses = true;
  int* make(void* at, int n) noexcept { return refuses ? nullptr : ::new (at) int{n}; }
};

TEST(DistributedPool, AConstructionThatFailsFailsTheCallAndLosesNothing) {
  distributed_pool<int, Picky> pool({.maximum = 4});
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(pool.try_acquire(i));
  EXPECT_EQ(pool.statistics().in_use, 0u);
  distributed_pool<int, Picky, checked_pool> watched({.maximum = 4});
  EXPECT_FALSE(watched.try_acquire(1));
  EXPECT_EQ(watched.report_leaks([](const char*) {}), 0u) << "nobody has it";
  pool.hooks().refuses = false;
  std::vector<distributed_pool<int, Picky>::handle> all;
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(all.emplace_back(pool.try_acquire(i))) << i;
}

struct Connection {
  int uses = 0;
  bool open = false;
};
struct Counts {
  int made = 0, reset = 0, destroyed = 0, fail_from = 1 << 30;
};
struct Connect : kept_constructed<Connection> {
  Counts* counts;
  explicit Connect(Counts* c) : counts(c) {}
  Connection* make(void* at) noexcept {
    if (counts->made >= counts->fail_from) return nullptr;
    ++counts->made;
    Connection* const c = kept_constructed::make(at);
    c->open = true;
    return c;
  }
  void reset(Connection&) noexcept { ++counts->reset; }
  void destroy(Connection& c) noexcept {
    c.open = false;
    ++counts->destroyed;
  }
};
using Connections = distributed_pool<Connection, Connect>;

TEST(KeptObjects, AreMadeOnceWhenNeededAndReset) {
  Counts counts;
  {
    Connections pool({.maximum = 500}, Connect(&counts));
    for (int i = 0; i < 10; ++i) {
      auto c = pool.try_acquire();
      ASSERT_TRUE(c && c->open);
      EXPECT_EQ(c->uses++, i) << "the same object each time";
    }
    EXPECT_EQ(counts.made, 1);
    EXPECT_EQ(counts.reset, 10);
    EXPECT_EQ(pool.prefill(100), 100u);
    EXPECT_EQ(counts.made, 100);
    EXPECT_EQ(counts.destroyed, 0);
  }
  EXPECT_EQ(counts.destroyed, 100);
}

TEST(KeptObjects, TrimDestroysTheIdleOnesButForThoseToKeep) {
  Counts counts;
  Connections pool({.maximum = 200, .prefill = 200}, Connect(&counts));
  auto held = pool.try_acquire();
  pool.trim(50);
  EXPECT_EQ(counts.destroyed, 149);
  EXPECT_TRUE(held->open);
  EXPECT_EQ(pool.statistics().bare, 149u);
  EXPECT_EQ(pool.statistics().idle, 50u);
  std::vector<Connections::handle> all;
  while (auto c = pool.try_acquire()) {
    EXPECT_TRUE(c->open);
    all.push_back(std::move(c));
  }
  EXPECT_EQ(all.size(), 199u);
  EXPECT_EQ(counts.made, 349);
}

TEST(KeptObjects, PrefillMakesAgainWhatTrimDestroyedAndCountsWhatThereIs) {
  Counts counts;
  Connections pool({.maximum = 20, .prefill = 8}, Connect(&counts));
  pool.trim(2);
  EXPECT_EQ(counts.destroyed, 6);
  EXPECT_EQ(pool.prefill(8), 8u);
  EXPECT_EQ(counts.made, 14) << "a later call would have had to make one";
  EXPECT_EQ(pool.statistics().idle, 8u);
  counts.fail_from = 14;
  EXPECT_EQ(pool.prefill(12), 8u) << "one that could not be made";
  counts.fail_from = 100;
  EXPECT_EQ(pool.prefill(12), 12u);
  EXPECT_EQ(pool.prefill(5), 12u);
  EXPECT_EQ(pool.prefill(1000), 20u);
}

TEST(KeptObjects, AFactoryThatFailsFailsTheCallAndLosesNothing) {
  Counts counts;
  counts.fail_from = 3;
  Connections pool({.maximum = 5}, Connect(&counts));
  std::vector<Connections::handle> all;
  for (int i = 0; i < 3; ++i) all.push_back(pool.try_acquire());
  EXPECT_TRUE(all[2]);
  EXPECT_FALSE(pool.try_acquire());
  counts.fail_from = 100;
  EXPECT_TRUE(all.emplace_back(pool.try_acquire()));
  EXPECT_TRUE(all.emplace_back(pool.try_acquire()));
  EXPECT_FALSE(pool.try_acquire());
}

}  // namespace
}  // namespace mortise
