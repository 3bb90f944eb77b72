// If this failed, a thread that ends would keep its blocks for ever, or memory held by idle threads would not be counted.
#include "mortise/cache/thread_cache.hpp"

#include <gtest/gtest.h>

#include "mortise/backbone/slab.hpp"
#include "mortise/cache/span_cache.hpp"
#include "mortise/source/static_heap.hpp"
#include "tests/support/stage.hpp"

namespace mortise::test {
namespace {

using H = Stack<Layers<ThreadCache<>, Slab<classes::Geometric<4, 8_KiB>>, SpanCache<>, PageIndex, StaticHeap<4_MiB>>>;

TEST(ThreadCache, CountsWhatThreadsHoldAndGetsItBackWhenTheyEnd) {
  Stage<H> stage(2);
  stage.as(0, [](H& h, auto& t) {
    Block blocks[20];
    for (Block& b : blocks) b = h.allocate(t, {.size = 64});
    for (const Block b : blocks) h.release(t, b);
  });
  Usage holds, after;
  stage.heap().tell(holds);
  EXPECT_EQ(holds.live, 0u);
  EXPECT_GE(holds.cached, 20u * 64);
  stage.detach(0);
  stage.as(1, [](H& h, auto& t) { h.trim(t); });
  stage.heap().tell(after);
  EXPECT_EQ(after.live + after.cached, 0u);
}

TEST(ThreadCache, ServesAThreadThatHasNotAttached) {
  Stage<H> stage(0);
  H::Thread t{};
  const Block b = stage.heap().allocate(t, {.size = 64});
  ASSERT_TRUE(b);
  stage.heap().release(t, b);
  EXPECT_FALSE(stage.heap().release_hit(t, {b.ptr, 0, kNoClass})) << "a block without a class is nobody's hit";
}

}  // namespace
}  // namespace mortise::test
