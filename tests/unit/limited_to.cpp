// If this failed, a program with a memory limit would pass it, or would not get memory that it had given back.
#include "mortise/shape/limited_to.hpp"

#include <gtest/gtest.h>

#include "mortise/backbone/slab.hpp"
#include "mortise/cache/core_cache.hpp"
#include "mortise/cache/span_cache.hpp"
#include "mortise/route/bypass.hpp"
#include "mortise/source/malloc_heap.hpp"
#include "mortise/source/mmap_heap.hpp"
#include "tests/support/stage.hpp"

namespace mortise::test {
namespace {

TEST(LimitedTo, RefusesWhatGoesBeyondAndTakesWhatCameBack) {
  Stack<Layers<LimitedTo<1000>, MallocHeap>> h;
  MallocHeap::Thread t;
  const Block a = h.allocate(t, {.size = 600});
  ASSERT_TRUE(a);
  EXPECT_FALSE(h.allocate(t, {.size = 401}));
  EXPECT_FALSE(h.allocate(t, {.size = SIZE_MAX}));
  const Block b = h.allocate(t, {.size = 400});
  EXPECT_TRUE(b);
  EXPECT_EQ(h.taken_bytes(), 1000u);
  h.release(t, a);
  h.set_limit_bytes(500);
  EXPECT_FALSE(h.allocate(t, {.size = 101}));
  h.release(t, b);
  EXPECT_EQ(h.taken_bytes(), 0u);
}

std::size_t resident;
unsigned looks;
/// A source that has in memory what a test says.
struct InMemoryAsTold {
  template <Heap Below> class Over : public Passthrough<Below> {
   public:
    bool see_resident_bytes(std::size_t& bytes) noexcept {
      ++looks;
      bytes = resident;
      return true;
    }
  };
};

TEST(LimitedTo, AtTheLimitTheKernelIsAsked) {
  Stack<Layers<LimitedTo<128'000>, InMemoryAsTold, MallocHeap>> h;
  MallocHeap::Thread t;
  resident = 100'000, looks = 0;
  ASSERT_TRUE(h.allocate(t, {.size = 128'000}));
  EXPECT_EQ(looks, 0u);
  for (int i = 0; i < 32; ++i) ASSERT_TRUE(h.allocate(t, {.size = 500})) << "28000 are not in memory";
  EXPECT_GT(looks, 8u) << "every 128th is asked for anew";
  EXPECT_FALSE(h.allocate(t, {.size = 500})) << "an eighth beyond is the most";
}

TEST(LimitedTo, WhatIsInMemoryIsNotGivenTwice) {
  Stack<Layers<LimitedTo<128'000>, InMemoryAsTold, MallocHeap>> h;
  MallocHeap::Thread t;
  resident = 127'000, looks = 0;
  ASSERT_TRUE(h.allocate(t, {.size = 128'000}));
  ASSERT_TRUE(h.allocate(t, {.size = 600}));
  EXPECT_FALSE(h.allocate(t, {.size = 600})) << "400 are left of what was seen";
  EXPECT_FALSE(h.allocate(t, {.size = 600}));
  EXPECT_EQ(looks, 1u) << "little has changed since";
  resident = 90'000;
  h.trim(t);
  EXPECT_TRUE(h.allocate(t, {.size = 600})) << "what was trimmed makes room";
}

TEST(LimitedTo, CountsWhatLiesBeside) {
  Stack<Layers<LimitedTo<128'000>, InMemoryAsTold, MallocHeap>> h;
  MallocHeap::Thread t;
  resident = 60'000;
  ASSERT_TRUE(h.charge_beside(68'000));
  ASSERT_TRUE(h.allocate(t, {.size = 60'000}));
  EXPECT_FALSE(h.charge_beside(4'000)) << "60000 in memory below and 68000 beside are the limit";
  h.uncharge_beside(8'000);
  EXPECT_TRUE(h.charge_beside(4'000));
}

/// What a pointer is released by has a class and no size: it was never taken off, and the limit was the bytes of a program's whole life.
TEST(LimitedTo, AboveACacheCountsWhatIsOut) {
  using Slabs = Bypass<LargerThan<32_KiB>, Slab<classes::Geometric<8, 32_KiB>>>;
  using H = Stack<Layers<LimitedTo<1_MiB>, CoreCache<>, Slabs, SpanCache<>, PageIndex, MmapHeap<>>>;
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    for (const std::size_t n : {24, 5000, 300'000})
      for (int i = 0; i < 2000; ++i) {
        const Block b = h.allocate(t, {.size = n});
        ASSERT_TRUE(b) << i << " blocks of " << n;
        h.release(t, h.block_of(b.ptr));
        ASSERT_EQ(h.taken_bytes(), 0u) << n;
      }
    EXPECT_FALSE(h.allocate(t, {.size = 2_MiB}));
  });
}

}  // namespace
}  // namespace mortise::test
