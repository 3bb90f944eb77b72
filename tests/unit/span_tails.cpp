// If this failed, a memory limit would count the ends of large blocks that nobody asked for, or forget to count those that are in use.
#include "mortise/cache/span_tails.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "mortise/cache/span_cache.hpp"
#include "mortise/shape/limited_to.hpp"
#include "mortise/source/mmap_heap.hpp"
#include "tests/support/stage.hpp"

namespace mortise::test {
namespace {

using H = Stack<Layers<SpanCache<purge::Never>, PageIndex, LimitedTo<64_MiB>, MmapHeap<>>>;

std::size_t counted(H& h) {
  Usage u;
  h.tell(u);
  EXPECT_EQ(u.mapped, u.live + u.dirty + u.purged);
  return h.taken_bytes() - u.mapped + u.live;  // what is taken beyond free memory
}

TEST(SpanTails, ABlockEndsWithItsPageAndOnlyThatCounts) {
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    const Block b = h.allocate(t, {.size = 66'000});
    EXPECT_EQ(b.size, 68 * 1024u);
    EXPECT_EQ(h.measure({b.ptr, 0}).size, b.size);
    const std::size_t mapped = h.taken_bytes() + (128_KiB - b.size);
    EXPECT_EQ(mapped % 64_KiB, 0u) << "the tail is off the count";
    h.release(t, b);
    EXPECT_EQ(h.taken_bytes(), mapped) << "a free span counts whole";
    EXPECT_EQ(counted(h), 0u);
  });
}

TEST(SpanTails, OfASpanThatWasInUseTheyCount) {
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    const Block first = h.allocate(t, {.size = 128_KiB});
    std::memset(first.ptr, 1, first.size);
    const std::size_t before = h.taken_bytes();
    h.release(t, first);
    const Block b = h.allocate(t, {.size = 66'000});
    ASSERT_EQ(b.ptr, first.ptr);
    EXPECT_EQ(h.taken_bytes(), before) << "its pages are resident";
    h.release(t, b);
    EXPECT_EQ(h.taken_bytes(), before);
  });
}

TEST(SpanTails, GrowingTakesFromThemAsFarAsTheLimitAllows) {
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    Block b = h.allocate(t, {.size = 66'000});
    const std::size_t before = h.taken_bytes();
    b = h.resize_in_place(t, b, 80'000);
    EXPECT_EQ(b.size, 80 * 1024u);
    EXPECT_EQ(h.taken_bytes(), before + 12_KiB);
    EXPECT_EQ(h.resize_in_place(t, b, 70'000).size, b.size) << "what was touched stays the block's";
    h.set_limit_bytes(64_KiB);  // far below what is taken: the kernel is not asked
    EXPECT_FALSE(h.resize_in_place(t, b, 100'000));
    EXPECT_EQ(h.measure({b.ptr, 0}).size, b.size);
    h.set_limit_bytes(64_MiB);
    b = h.resize_in_place(t, b, 300'000);
    EXPECT_EQ(b.size, round_up(300'000, 4_KiB));
    h.audit();
    h.release(t, b);
    EXPECT_EQ(counted(h), 0u);
  });
}

TEST(SpanTails, ZeroedBlocksAreZeroWhatHasMovedBefore) {
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    const Block full = h.allocate(t, {.size = 320_KiB});
    std::memset(full.ptr, 0x5a, full.size);
    h.release(t, full);
    const Block b = h.allocate(t, {.size = 270'000});  // its tail is full of old bytes
    const Block moved = h.resize_by_moving(t, b, 4_MiB);
    ASSERT_TRUE(moved);
    const Block again = h.allocate(t, {.size = 320_KiB, .zeroed = true});
    for (std::size_t i = 0; i < again.size; ++i) ASSERT_EQ(again.ptr[i], std::byte{0});
  });
}

}  // namespace
}  // namespace mortise::test
