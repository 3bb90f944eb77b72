// If this failed, an instrument would tell a wrong number of allocations or of live bytes.
#include "mortise/watch/counters.hpp"

#include <gtest/gtest.h>

#include "mortise/shape/limited_to.hpp"
#include "mortise/source/malloc_heap.hpp"

namespace mortise::test {
namespace {

TEST(Counters, CountWhatGoesByAndWhatDoesNot) {
  Stack<Layers<Counters<>, Counters<probe::Bytes>, Counters<probe::Sizes>, LimitedTo<1000>, MallocHeap>> h;
  MallocHeap::Thread t;
  const Block a = h.allocate(t, {.size = 600});
  EXPECT_FALSE(h.allocate(t, {.size = 600}));
  h.release(t, a);
  EXPECT_EQ(h.probe().allocations.load(Order::relaxed), 1u);
  EXPECT_EQ(h.probe().failures.load(Order::relaxed), 1u);
  EXPECT_EQ(h.probe().releases.load(Order::relaxed), 1u);
  EXPECT_EQ(h.below.probe().live.load(Order::relaxed), 0u);
  EXPECT_EQ(h.below.probe().peak.load(Order::relaxed), 600u);
  EXPECT_EQ(h.below.below.probe().count[9].load(Order::relaxed), 2u);
}

}  // namespace
}  // namespace mortise::test
