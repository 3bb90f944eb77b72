// If this failed, a slab that comes and goes would cost system calls each time, or one that waits with its wall would be lost.
#include "mortise/guard/guard_pages.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <vector>

#include "mortise/backbone/slab.hpp"
#include "mortise/cache/span_cache.hpp"
#include "mortise/shape/limited_to.hpp"
#include "mortise/shape/page_index.hpp"
#include "mortise/source/mmap_heap.hpp"
#include "tests/support/stage.hpp"

namespace mortise::test {
namespace {

template <std::size_t kGuards> using Walled = Stack<Layers<GuardPages<kGuards, false>, SpanCache<purge::Never>, PageIndex, MmapHeap<>>>;

void touch(std::byte* p) { *reinterpret_cast<volatile char*>(p) = 1; }
template <class H> Usage told(H& h) {
  Usage u;
  h.tell(u);
  EXPECT_EQ(u.mapped, u.live + u.cached + u.dirty + u.purged);
  h.audit();
  return u;
}

TEST(GuardPages, AReleasedSpanStaysAndItsWallStands) {
  Stage<Walled<8>> stage;
  stage.as(0, [](auto& h, auto& t) {
    const Block b = h.allocate(t, {.size = 64_KiB});
    ASSERT_EQ(b.size, 64_KiB);
    std::memset(b.ptr, 7, b.size);
    EXPECT_EQ(told(h).live, 64_KiB);
    h.release(t, b);
    EXPECT_EQ(told(h).live, 0u);
    EXPECT_EQ(told(h).large_count, 0u);
    EXPECT_GE(told(h).dirty, 64_KiB);
    EXPECT_EXIT(touch(b.end()), ::testing::KilledBySignal(SIGSEGV), "");
    Crime crime;
    EXPECT_TRUE(h.explain(b.end(), crime)) << "whoever runs into it is told so";
    EXPECT_EQ(crime.fault, Fault::out_of_bounds);
    EXPECT_DEATH(h.measure({b.ptr, 0}), "invalid_free") << "nobody's block";

    const Block other = h.allocate(t, {.size = 128_KiB});
    EXPECT_NE(other.ptr, b.ptr) << "it has its size";
    const Block again = h.allocate(t, {.size = 50'000});
    EXPECT_EQ(again.ptr, b.ptr);
    EXPECT_EQ(again.size, 64_KiB);
    EXPECT_EQ(again.ptr[64_KiB - 1], std::byte{7}) << "its pages never went";
    EXPECT_EXIT(touch(again.end()), ::testing::KilledBySignal(SIGSEGV), "");
    EXPECT_EQ(told(h).live, 192_KiB);
    h.release(t, again);
    h.release(t, other);
  });
}

/// A large block that has grown in place leaves no ends of spans inside it that a walk over what waits, or over holes, would meet.
TEST(GuardPages, AWalkPassesWhatWaitsBy) {
  using H = Stack<Layers<Slab<classes::Geometric<8>>, GuardPages<8, false>, SpanCache<purge::Never>, PageIndex, LimitedTo<>, MmapHeap<>>>;
  Stage<H> stage;
  stage.as(0, [](auto& h, auto& t) {
    auto& walls = h.below;
    auto& spans = h.below.below;
    const auto live = [&] {
      unsigned n = 0;
      h.each_live([&](Block) { ++n; });
      return n;
    };
    const Block small = spans.allocate(t, {.size = 256_KiB}), large = spans.resize_in_place(t, small, 576_KiB);
    ASSERT_EQ(large.ptr, small.ptr);
    spans.release(t, large);
    const Block slab = walls.allocate(t, {.size = 512_KiB});
    ASSERT_EQ(slab.ptr, large.ptr);
    h.page_index().set_class(h.page_index().span_of(slab.ptr), kNoClass);  // as a slab's is when it is given back
    walls.release(t, slab);
    EXPECT_EQ(live(), 0u) << "it waits";
    h.set_limit_bytes(64_KiB);
    h.trim(t);
    EXPECT_EQ(live(), 0u) << "the system has it";
  });
}

/// Whether a slab has a wall is told by a part of a granule: where a page is a whole one, a wall that nobody knows of would stay.
TEST(GuardPages, PagesAsLargeAsGranulesMakeNoWalls) {
  Stage<Walled<8>> stage(1, false);
  os::Facts facts = own_facts();
  facts.page_bytes = 64_KiB;
  ASSERT_TRUE(start_below(stage.heap(), facts));
  stage.as(0, [](auto& h, auto& t) {
    const Block slab = h.allocate(t, {.size = 64_KiB});
    h.release(t, slab);
    for (const std::size_t size : {64_KiB, 128_KiB}) {  // where the slab was, and its wall would be
      const Block large = h.below.allocate(t, {.size = size});
      std::memset(large.ptr, 1, large.size);
      h.below.release(t, large);
    }
    EXPECT_EQ(told(h).live, 0u);
  });
}

TEST(GuardPages, TrimGivesBackWhatStays) {
  Stage<Walled<64>> stage;
  stage.as(0, [](auto& h, auto& t) {
    std::vector<Block> blocks;
    for (unsigned i = 0; i < 40; ++i) blocks.push_back(h.allocate(t, {.size = (1 + i % 3) * 64_KiB}));
    for (const Block& b : blocks) std::memset(b.ptr, 1, b.size);
    for (const Block& b : blocks) h.release(t, b);
    EXPECT_EQ(told(h).live, 0u);
    h.trim(t);
    const Usage u = told(h);
    EXPECT_EQ(u.live, 0u);
    EXPECT_EQ(u.dirty, 0u);
    for (const Block& b : blocks) touch(b.end());  // no wall is left
  });
}

TEST(GuardPages, AKeptSpanGivesUpItsWallWhereThereAreNoMore) {
  Stage<Walled<1>> stage;
  stage.as(0, [](auto& h, auto& t) {
    const Block b = h.allocate(t, {.size = 64_KiB});
    h.release(t, b);
    const Block large = h.allocate(t, {.size = 128_KiB});
    EXPECT_EXIT(touch(large.end()), ::testing::KilledBySignal(SIGSEGV), "");
    const Block without = h.allocate(t, {.size = 64_KiB});
    EXPECT_EQ(told(h).live, 192_KiB);
    h.release(t, large);
    h.release(t, without);
    EXPECT_EQ(told(h).live, 0u);
  });
}

/// Blocks of a cache or of slabs are no spans: pages behind them would be other blocks'.
TEST(GuardPages, StandBelowSlabsAndCachesOnly) {
  using Spans = Stack<Layers<SpanCache<>, PageIndex, MmapHeap<>>>;
  EXPECT_TRUE((FitsOn<GuardPages<>, Spans>));
  EXPECT_FALSE((FitsOn<GuardPages<>, Stack<Layers<Slab<>, SpanCache<>, PageIndex, MmapHeap<>>>>));
}

}  // namespace
}  // namespace mortise::test
