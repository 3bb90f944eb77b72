// If this failed, a program with a memory limit would pass it, or would not get memory that it had given back.
#include "mortise/shape/limited_to.hpp"

#include <gtest/gtest.h>

#include "mortise/source/malloc_heap.hpp"

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

}  // namespace
}  // namespace mortise::test
