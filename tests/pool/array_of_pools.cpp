// If this fails, a program that shares objects through the classic pools gets one object twice, loses one, or starves.
#include "mortise/pool/array_of_pools.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <set>

#include "support/race.hpp"

namespace mortise {
namespace {

struct Message {
  std::uint64_t words[8] = {};
  std::uint64_t sum = 0;
};

template <class Pool>
class ArrayOfPools : public testing::Test {};
using Pools = testing::Types<array_of_pools<Message, 1>, array_of_pools<Message, 4, by_thread_in_turn>,
                             array_of_pools<Message, 3, by_thread_hash, pools::IndexHead>,
                             array_of_pools<Message, 2, by_core, pools::AsymmetricHead, pools::CountedByThread<>>,
                             array_of_pools<Message, 2, by_core, pools::PairHead>>;
TYPED_TEST_SUITE(ArrayOfPools, Pools);

TYPED_TEST(ArrayOfPools, GivesEachObjectOnceAndThenNone) {
  TypeParam pool(10);
  std::set<Message*> seen;
  for (int i = 0; i < 10; ++i) {
    Message* const m = pool.try_acquire();
    ASSERT_NE(m, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(m) % alignof(Message), 0u);
    EXPECT_TRUE(seen.insert(m).second);
    EXPECT_EQ(pool.at(pool.index_of(m)), m);
  }
  EXPECT_EQ(pool.try_acquire(), nullptr);
  for (Message* m : seen) pool.release(m);
  EXPECT_NE(pool.try_acquire(), nullptr);
}

TYPED_TEST(ArrayOfPools, ObjectsStandOnLinesOfTheirOwn) {
  TypeParam pool(4);
  std::set<std::uintptr_t> lines;
  for (std::uint32_t i = 0; i < 4; ++i)
    for (std::size_t at = 0; at < sizeof(Message); at += 8)
      lines.insert((reinterpret_cast<std::uintptr_t>(pool.at(i)) + at) / 64);
  const std::uintptr_t apart =
      reinterpret_cast<std::uintptr_t>(pool.at(1)) - reinterpret_cast<std::uintptr_t>(pool.at(0));
  EXPECT_EQ(apart % 64, 0u);
  EXPECT_GE(apart, sizeof(Message) + sizeof(FreeLink));
}

TYPED_TEST(ArrayOfPools, ThreadsNeverShareAnObject) {
  TypeParam pool(64);
  EXPECT_EQ(test::race(pool, 8, 20000), 0u);
  unsigned left = 0;
  while (pool.try_acquire()) ++left;
  EXPECT_EQ(left, 64u) << "objects were lost";
}

TYPED_TEST(ArrayOfPools, PreemptionAndMigrationChangeNothing) {
  TypeParam pool(64);
  const test::Antagonists antagonists;
  EXPECT_EQ(test::race(pool, 6, 30000), 0u);
}

TYPED_TEST(ArrayOfPools, ProducersAndConsumersFinishWithOneSpareInAHundred) {
  TypeParam pool(101);
  EXPECT_EQ(test::hand_over(pool, 2, 100, 20000), 0u);
  unsigned left = 0;
  while (pool.try_acquire()) ++left;
  EXPECT_EQ(left, 101u);
}

TEST(ArrayOfPoolsContention, IsCountedByThreadAndSummed) {
  array_of_pools<Message, 2, by_thread_in_turn, pools::IndexHead, pools::CountedByThread<>> pool(2);
  Message* const a = pool.try_acquire();
  Message* const b = pool.try_acquire();
  ASSERT_TRUE(a && b);
  EXPECT_EQ(pool.contention().steals, 1u) << "the second came from the other pool";
  EXPECT_EQ(pool.try_acquire(), nullptr);
  EXPECT_EQ(pool.contention().failures, 1u);
}

TEST(ArrayOfPoolsObjects, AreMadeOnceAndDestroyedWithThePool) {
  static std::atomic<int> alive;
  struct Counted {
    Counted() { ++alive; }
    ~Counted() { --alive; }
  };
  {
    array_of_pools<Counted, 2> pool(5);
    EXPECT_EQ(alive, 5);
    Counted* const c = pool.try_acquire();
    pool.release(c);
    EXPECT_EQ(alive, 5);
  }
  EXPECT_EQ(alive, 0);
}

template <std::size_t kAlign> void expect_aligned() {
  struct alignas(kAlign) Wide {
    char bytes[kAlign];
  };
  array_of_pools<Wide, 2> pools(4);
  for (int i = 0; i < 4; ++i) {
    Wide* const wide = pools.try_acquire();
    ASSERT_NE(wide, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(wide) % kAlign, 0u);
  }
}
TEST(ArrayOfPoolsObjects, AreAlignedBeyondACacheLine) {
  expect_aligned<8>();
  expect_aligned<128>();
  expect_aligned<4096>();
}

TEST(ArrayOfPoolsMemory, RefusedMemoryIsAnEmptyPool) {
  array_of_pools<char[1 << 20], 2> pool(1u << 31);
  EXPECT_EQ(pool.capacity(), 0u);
  EXPECT_EQ(pool.try_acquire(), nullptr);
}

}  // namespace
}  // namespace mortise
