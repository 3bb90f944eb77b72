// If this failed, a block would go back to a heap that it did not come from, or an arena would stand empty beside a full system.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "mortise/backbone/boundary_tag.hpp"
#include "mortise/backbone/segregated_fit.hpp"
#include "mortise/backbone/slab.hpp"
#include "mortise/backbone/tlsf.hpp"
#include "mortise/cache/batched_free.hpp"
#include "mortise/cache/core_cache.hpp"
#include "mortise/cache/span_cache.hpp"
#include "mortise/cache/thread_cache.hpp"
#include "mortise/guard/delayed_free.hpp"
#include "mortise/guard/guard_pages.hpp"
#include "mortise/guard/header_magic.hpp"
#include "mortise/guard/sealed_tail.hpp"
#include "mortise/guard/sampled_guards.hpp"
#include "mortise/guard/size_check.hpp"
#include "mortise/guard/tail_checksum.hpp"
#include "mortise/guard/zero_on_free.hpp"
#include "mortise/route/bypass.hpp"
#include "mortise/route/bypass_for.hpp"
#include "mortise/route/fallback.hpp"
#include "mortise/route/segregate.hpp"
#include "mortise/source/mmap_heap.hpp"
#include "mortise/shape/aligned.hpp"
#include "mortise/shape/block_marks.hpp"
#include "mortise/shape/sized_header.hpp"
#include "mortise/source/static_heap.hpp"
#include "tests/support/stage.hpp"

namespace mortise::test {
namespace {

template <class H> bool is_inside(const H& h, const Block& b) {
  return static_cast<std::size_t>(b.ptr - reinterpret_cast<const std::byte*>(&h)) < sizeof(H);
}

TEST(Fallback, ArenaFirstThenTheSystemAndBack) {
  using H = Stack<Layers<Fallback<Tlsf<>, StaticHeap<1_MiB>>, Tlsf<>, MmapHeap<>>>;
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    std::vector<Block> inside, outside;
    while (outside.size() < 100) {
      const Block b = h.allocate(t, {.size = 1000});
      ASSERT_TRUE(b && h.holds(b.ptr));
      (is_inside(h, b) ? inside : outside).push_back(b);
    }
    EXPECT_GT(inside.size(), 900u) << "most of the arena is used before the system is asked";
    for (const Block b : outside) h.release(t, h.measure(h.block_of(b.ptr)));
    for (const Block b : inside) h.release(t, h.measure(h.block_of(b.ptr)));
    h.audit();
    EXPECT_TRUE(is_inside(h, h.allocate(t, {.size = 500'000}))) << "the arena is whole again";
    EXPECT_FALSE(is_inside(h, h.allocate(t, {.size = 2_MiB})));
  });
}

TEST(Segregate, LargeBlocksHaveAStackOfTheirOwn) {
  using H = Stack<Layers<Segregate<LargerThan<4_KiB>, Tlsf<>, StaticHeap<1_MiB>>, BoundaryTag<>, MmapHeap<>>>;
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    const Block small = h.allocate(t, {.size = 4096}), large = h.allocate(t, {.size = 4097});
    EXPECT_FALSE(is_inside(h, small));
    EXPECT_TRUE(is_inside(h, large));
    EXPECT_FALSE(h.allocate(t, {.size = 2_MiB})) << "no fallback: that is another layer";
    EXPECT_EQ(h.measure(h.block_of(large.ptr)).size, large.size);
    const Block grown = h.resize_in_place(t, large, 100'000);
    EXPECT_EQ(grown.ptr, large.ptr);
    h.release(t, small);
    h.release(t, grown);
    h.audit();
  });
}

TEST(Bypass, ABlockThatGrowsGoesPastAndGrowsWhereItLies) {
  using Classes = classes::Geometric<8, 256_KiB>;
  using H = Stack<Layers<Aligned, CoreCache<>, Bypass<LargerThan<256_KiB, 32_KiB>, Slab<Classes>>, SpanCache<>, PageIndex, MmapHeap<>>>;
  static_assert(kGrowingBytesOf<H> == 32_KiB);
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    const Block cached = h.allocate(t, {.size = 40'000});
    EXPECT_NE(cached.size_class, kNoClass);
    h.release(t, cached);
    EXPECT_FALSE(allocate_growing(h, t, 32_KiB)) << "small enough to have a class";
    Block b = allocate_growing(h, t, 40'000);
    ASSERT_TRUE(b);
    EXPECT_EQ(b.size_class, kNoClass) << "the cache has one, which could not grow";
    std::memset(b.ptr, 7, 40'000);
    std::byte* const first = b.ptr;
    for (std::size_t n = 50'000; n < 400'000; n += 50'000) {
      b = h.resize_in_place(t, b, n);
      ASSERT_EQ(b.ptr, first) << n;
    }
    ASSERT_EQ(h.resize_in_place(t, b, 33_KiB).ptr, first) << "nor does it come back to the classes before it must";
    EXPECT_FALSE(h.resize_in_place(t, h.measure(h.block_of(first)), 32_KiB));
    EXPECT_EQ(first[39'999], std::byte{7});
    h.release(t, h.measure(h.block_of(first)));
    h.audit();
  });
}

/// A route of one's own that asks for something else than a size.
struct Zeroed {
  static constexpr const char* kName = "Zeroed";
  static constexpr bool claims(Request r) noexcept { return r.zeroed; }
};
struct Words {
  std::string said;
  Words& layer(const char* name, const char*) { return add(name); }
  Words& policy(const char* slot, const char* answer) { return add(slot).add(answer); }
  Words& number(const char* name, std::size_t value) { return add(name).add(std::to_string(value)); }
  Words& add(const std::string& word) { return said += word + " ", *this; }
};
template <class Layer> std::string described() {
  Words words;
  Layer::describe(words);
  return words.said;
}

TEST(Bypass, ARouteThatIsNotBySizeIsARoute) {
  using H = Stack<Layers<Bypass<Zeroed, Slab<classes::Geometric<4, 32_KiB>>>, SpanCache<>, PageIndex, MmapHeap<>>>;
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    EXPECT_NE(h.allocate(t, {.size = 100}).size_class, kNoClass);
    EXPECT_EQ(h.allocate(t, {.size = 100, .zeroed = true}).size_class, kNoClass);
  });
  EXPECT_EQ(described<Bypass<Zeroed>>(), "Bypass Route Zeroed ");
  EXPECT_EQ((described<Segregate<Zeroed, MmapHeap<>>>()).substr(0, 24), "Segregate Route Zeroed M");
  EXPECT_EQ(described<Bypass<LargerThan<4_KiB>>>(), "Bypass Route LargerThan limit_bytes 4096 ");
}

TEST(BypassFor, AThreadThatSkipsMeetsTheOthersBlocks) {
  using H = Stack<Layers<BypassFor<RealTimeThreads, ThreadCache<>>, Slab<classes::Geometric<4, 32_KiB>>, SpanCache<>, PageIndex, MmapHeap<>>>;
  Stage<H> stage(2);
  const Block cached = stage.as(0, [](H& h, auto& t) {
    EXPECT_FALSE(t.skips) << "this thread is an ordinary one";
    const Block b = h.allocate(t, {.size = 100});
    h.release(t, b);
    EXPECT_TRUE(h.allocate_hit(t, {.size = 100})) << "from the cache";
    return b;
  });
  stage.as(1, [&](H& h, auto& t) {
    h.set_skips(t, true);
    Usage before, after;
    h.tell(before);
    h.release(t, cached);  // straight to the slab
    EXPECT_FALSE(h.allocate_hit(t, {.size = 100}));
    EXPECT_FALSE(h.release_hit(t, h.allocate(t, {.size = 100})));
    h.tell(after);
    EXPECT_EQ(after.live, before.live) << "one came back and one went out";
  });
}

using Below = Layers<SpanCache<>, PageIndex, BlockMarks<2>, MmapHeap<>>;
using Ground = Stack<Below>;
template <class... Wrapped> constexpr bool kMayWrap = FitsOn<Bypass<LargerThan<32_KiB>, Wrapped...>, Ground>;
template <class... Wrapped> constexpr bool kMaySkip = FitsOn<BypassFor<RealTimeThreads, Wrapped...>, Stack<Join<Layers<Slab<>>, Below>>>;

/// A large block came past the guard and was judged by it, or came through the guard and went back past it.
TEST(Bypass, WhatMustSeeEachBlockIsNotWrapped) {
  static_assert(kMayWrap<Slab<>> && kMayWrap<ThreadCache<>, Slab<>> && kMayWrap<DelayedFree<>, Slab<>>);
  static_assert(!kMayWrap<TailChecksum<>, Slab<>> && !kMayWrap<SealedTail<>, Slab<>> && !kMayWrap<HeaderMagic<>, Slab<>>);
  static_assert(!kMayWrap<SizedHeader, Slab<>> && !kMayWrap<ZeroOnFree<>, Slab<>> && !kMayWrap<SampledGuards<>, Slab<>>);
  static_assert(!kMayWrap<Slab<>, GuardPages<>>, "it would take a page off the size of blocks that it has never seen");
  static_assert(kMayWrap<Slab<>, GuardPages<16, false>>);
  using Small = SegregatedFit<classes::Geometric<8, 16_KiB>, LockedBin<>>;
  static_assert(kMayWrap<Small>);
  using Walled = Stack<Join<Layers<GuardPages<16, false>>, Below>>;
  static_assert(FitsOn<Slab<>, Walled> && !FitsOn<Small, Walled>, "a block of 20 KiB would get a wall, and not end before it");
  static_assert(!FitsOn<Bypass<LargerThan<32_KiB>, Slab<>>, Walled>, "so would all that go past");
}
TEST(BypassFor, WhatMustSeeEachBlockIsNotWrapped) {
  static_assert(kMaySkip<ThreadCache<>> && kMaySkip<BatchedFree<>> && kMaySkip<DelayedFree<>, ThreadCache<>>);
  static_assert(!kMaySkip<HeaderMagic<>, ThreadCache<>> && !kMaySkip<ZeroOnFree<>, ThreadCache<>>);
  static_assert(!kMaySkip<SampledGuards<>, ThreadCache<>>);
}

unsigned accused = 0;
void count(const Crime&) noexcept { ++accused; }

/// Those of the arena had another guard's marks and sizes, or ended the program.
TEST(Fallback, AGuardOfOneHeapIsNotAskedAboutBlocksOfTheOther) {
  using Guarded = Join<Layers<SizeCheck<on_fault::CallBack<count>>, TailChecksum<>, Aligned, CoreCache<>, Slab<>>, Below>;
  using H = Stack<Layers<Fallback<Tlsf<>, StaticHeap<1_MiB>>>, Guarded>;
  static_assert(!kSizesExactly<H> && ChecksSizes<H> && !Marked<H>);
  static_assert(!FitsOn<HeaderMagic<>, H> && !FitsOn<SizeCheck<>, H>);
  Stage<H> stage;
  accused = 0;
  stage.as(0, [](H& h, auto& t) {
    Block last;
    unsigned outside = 0;
    while (outside < 3) {
      last = h.allocate(t, {.size = 1000});
      ASSERT_TRUE(last);
      outside += !is_inside(h, last);
      h.check_size(last.ptr, 1000, 1);
      ASSERT_EQ(accused, 0u);
    }
    h.check_size(last.ptr, 999, 1);
    EXPECT_EQ(accused, 1u) << "those of its own are judged";
  });
}

}  // namespace
}  // namespace mortise::test
