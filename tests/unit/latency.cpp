// If this failed, a percentile would be told that no call had, or calls would go missing from the tail.
#include "mortise/watch/latency.hpp"

#include <gtest/gtest.h>

#include "mortise/source/malloc_heap.hpp"

namespace mortise::test {
namespace {

using Buckets = LogBuckets<>;

TEST(LogBuckets, CoverEveryValueInOrderAndNarrowly) {
  static_assert(Buckets::floor_of(0) == 0 && Buckets::bucket_of(0) == 0);
  for (unsigned b = 0; b + 1 < Buckets::kCount; ++b) {
    const std::uint64_t low = Buckets::floor_of(b), high = Buckets::floor_of(b + 1) - 1;
    ASSERT_LE(low, high);
    ASSERT_EQ(Buckets::bucket_of(low), b);
    ASSERT_EQ(Buckets::bucket_of(high), b);
    ASSERT_LE(high - low, low / Buckets::kParts);
  }
  EXPECT_EQ(Buckets::bucket_of(~std::uint64_t{0}), Buckets::kCount - 1);
}

TEST(LatencyHistogram, TellsTheTail) {
  LatencyHistogram h;
  EXPECT_EQ(h.exceeded_by_one_in(2), 0u);
  for (int i = 0; i < 990; ++i) h.add(10);
  for (int i = 0; i < 9; ++i) h.add(1000);
  h.add(123'456);
  EXPECT_EQ(h.count(), 1000u);
  EXPECT_EQ(h.exceeded_by_one_in(2), 10u);
  EXPECT_EQ(h.exceeded_by_one_in(100), 10u);
  EXPECT_NEAR(static_cast<double>(h.exceeded_by_one_in(101)), 1000, 1000 / 16.0);
  EXPECT_NEAR(static_cast<double>(h.exceeded_by_one_in(1000)), 1000, 1000 / 16.0);
  EXPECT_EQ(h.exceeded_by_one_in(1001), 123'456u);
  EXPECT_EQ(h.worst(), 123'456u);
}

TEST(Latency, TimesEveryCall) {
  Stack<Layers<Latency, MallocHeap>> h;
  MallocHeap::Thread t;
  for (int i = 0; i < 100; ++i) h.release(t, h.allocate(t, {.size = 600}));
  EXPECT_EQ(h.allocations().count(), 100u);
  EXPECT_EQ(h.releases().count(), 100u);
  EXPECT_GE(h.allocations().worst(), h.allocations().exceeded_by_one_in(2));
}

}  // namespace
}  // namespace mortise::test
