// If this failed, a sleeping program would swell with huge pages that the kernel makes of what was given back, or a program that woke up
// would go on with small pages for ever.
#include "mortise/cache/huge_advice.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "mortise/backbone/slab.hpp"
#include "mortise/cache/span_cache.hpp"
#include "mortise/source/mmap_heap.hpp"
#include "tests/support/advice.hpp"
#include "tests/support/stage.hpp"

namespace mortise::test {
namespace {

using H = Stack<Layers<SpanCache<purge::AfterDelay<>, huge::After<2_MiB>>, PageIndex, MmapHeap<>>>;

TEST(HugeAdvice, IsTakenBackWhileTheHeapRests) {
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    const Block small = h.allocate(t, {.size = 64_KiB});
    EXPECT_EQ(advice_at(small.ptr), "");
    h.trim(t);
    EXPECT_EQ(advice_at(small.ptr), "") << "nothing was asked for, and nothing is taken back";
    h.allocate(t, {.size = 4_MiB});
    const Block large = h.allocate(t, {.size = 8_MiB});
    EXPECT_EQ(advice_at(large.end() - 1), "hg");
    h.release(t, large);
    EXPECT_EQ(advice_at(large.end() - 1), "hg");
    h.trim(t);
    EXPECT_EQ(advice_at(large.end() - 1), "nh");
    EXPECT_EQ(advice_at(small.ptr), "nh") << "what is in use as well: pages inside it may have gone back";
    h.release(t, small);
    h.release(t, h.allocate(t, {.size = 64_KiB}));
    EXPECT_EQ(advice_at(large.end() - 1), "nh") << "a little work does not wake it";
    const Block again = h.allocate(t, {.size = 8_MiB});
    ASSERT_EQ(again.ptr, large.ptr);
    EXPECT_EQ(advice_at(again.end() - 1), "hg");
  });
}

template <class Huge> std::string advice_of_block(std::size_t bytes) {
  Stage<Stack<Layers<SpanCache<purge::AfterDelay<>, Huge>, PageIndex, MmapHeap<>>>> stage;
  return stage.as(0, [&](auto& h, auto& t) { return advice_at(h.allocate(t, {.size = bytes}).ptr); });
}

TEST(HugeAdvice, ABlockOfTwoHugePagesAsksInASmallHeap) {
  EXPECT_EQ(advice_of_block<huge::After<16_MiB>>(4_MiB), "hg");
  EXPECT_EQ(advice_of_block<huge::After<16_MiB>>(4_MiB - 64_KiB), "");
  EXPECT_EQ(advice_of_block<huge::ForBlocks>(4_MiB), "hg");
  EXPECT_EQ(advice_of_block<huge::ForBlocks>(4_MiB - 64_KiB), "");
  EXPECT_EQ(advice_of_block<huge::Never>(4_MiB), "");
}

TEST(HugeAdvice, WhereOnlyABlockAskedNothingElseDoes) {
  using Small = Stack<Layers<SpanCache<purge::AfterDelay<>, huge::After<64_MiB>>, PageIndex, MmapHeap<>>>;
  Stage<Small> stage;
  stage.as(0, [](Small& h, auto& t) {
    const Block before = h.allocate(t, {.size = 512_KiB});
    const Block block = h.allocate(t, {.size = 4_MiB});
    ASSERT_EQ(advice_at(block.end() - 1), "hg") << "what the heap has grown by";
    EXPECT_EQ(advice_at(before.ptr), "");
    h.release(t, block);
    h.trim(t);
    for (int i = 0; i < 64; ++i) EXPECT_EQ(advice_at(h.allocate(t, {.size = 64_KiB}).ptr), "nh") << "it rests, and wakes without";
    EXPECT_EQ(advice_at(before.ptr), "nh");
    const Block more = h.allocate(t, {.size = 8_MiB});
    EXPECT_EQ(advice_at(more.end() - 1), "hg");
    h.release(t, more);
    h.trim(t);
    EXPECT_EQ(advice_at(more.end() - 1), "nh") << "it rests again";
  });
  Stage<Small> another;
  another.as(0, [](Small& h, auto& t) {
    EXPECT_EQ(advice_at(h.allocate(t, {.size = 64_KiB, .align = 4_MiB}).ptr), "") << "what is needed for the alignment is no block";
  });
}

TEST(HugeAdvice, ForBlocksTheRestOfALargeHeapAsksForNone) {
  using ForBlocks = Stack<Layers<SpanCache<purge::Never, huge::ForBlocks>, PageIndex, MmapHeap<>>>;
  Stage<ForBlocks> stage;
  stage.as(0, [](ForBlocks& h, auto& t) {
    for (int i = 0; i < 32; ++i) EXPECT_EQ(advice_at(h.allocate(t, {.size = 1_MiB}).ptr), "");
    EXPECT_EQ(advice_at(h.allocate(t, {.size = 8_MiB}).end() - 1), "hg") << "what the heap has grown by for it";
    std::byte* last = nullptr;
    for (int i = 0; i < 8; ++i) last = h.allocate(t, {.size = 1_MiB}).ptr;
    EXPECT_EQ(advice_at(last), "") << "but for what was left of its last huge page";
  });
}

/// Bytes of [at, at + bytes) that are in memory.
std::size_t resident(std::byte* at, std::size_t bytes) {
  std::vector<unsigned char> pages(bytes / 4_KiB);
  EXPECT_EQ(mincore(at, bytes, pages.data()), 0);
  return static_cast<std::size_t>(std::count_if(pages.begin(), pages.end(), [](unsigned char p) { return p & 1; })) * 4_KiB;
}

TEST(HugeAdvice, WhatTheKernelFilledMeanwhileGoesBack) {
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    h.release(t, h.allocate(t, {.size = 4_MiB}));
    const Block b = h.allocate(t, {.size = 8_MiB});
    ASSERT_EQ(advice_at(b.ptr), "hg");
    h.release(t, b);
    ASSERT_GE(h.purge_older_than(~std::uint64_t{0}), 8_MiB);
    std::memset(b.ptr, 0, b.size);  // as the kernel does, which nobody hears of
    ASSERT_EQ(resident(b.ptr, b.size), b.size);
    const std::uint8_t era = h.page_index().purge_era();
    h.trim(t);
    EXPECT_EQ(resident(b.ptr, b.size), 0u);
    EXPECT_NE(h.page_index().purge_era(), era);
    h.trim(t);
    EXPECT_EQ(h.page_index().purge_era(), static_cast<std::uint8_t>(era + 1)) << "it rested already";
    h.audit();
  });
}

/// A slab a few of whose blocks are live: the pages in the released ones, and those never handed out, go back each time.
TEST(HugeAdvice, SlabsArePurgedAgainAfterEachTimeTheHeapRests) {
  using Slabs = Stack<Layers<Slab<>, SpanCache<purge::AfterDelay<>, huge::After<2_MiB>>, PageIndex, MmapHeap<>>>;
  Stage<Slabs> stage;
  stage.as(0, [](Slabs& h, auto& t) {
    h.below.release(t, h.below.allocate(t, {.size = 4_MiB}));
    constexpr std::size_t kSize = 8_KiB;
    const Block kept = h.allocate(t, {.size = kSize});
    const Block gone = h.allocate(t, {.size = kSize});
    Span* const s = h.page_index().span_of(kept.ptr);
    std::byte* const base = h.page_index().base_of(s);
    const std::size_t bytes = h.page_index().bytes_of(s);
    h.release(t, gone);
    for (int turn = 0; turn < 3; ++turn) {
      h.below.release(t, h.below.allocate(t, {.size = 8_MiB}));  // it works, and asks for huge pages
      ASSERT_NE(advice_at(base), "nh") << turn;
      for (std::size_t at = 0; at < bytes; at += 4_KiB) *const_cast<volatile std::byte*>(base + at) = base[at];
      ASSERT_EQ(resident(base, bytes), bytes);
      h.trim(t);
      EXPECT_LE(resident(base, bytes), 12_KiB) << turn;
    }
    h.release(t, kept);
    h.audit();
  });
}

TEST(HugeAdvice, WhereTheUserAsksForThemTheHeapGrowsByWholeOnes) {
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    h.set_huge_pages(HugePages::madvise);
    const Block first = h.allocate(t, {.size = 64_KiB});
    std::byte* const base = first.ptr;
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(base) % huge::kPageBytes, 0u);
    EXPECT_EQ(h.page_index().covered() * H::kGranule % huge::kPageBytes, 0u);
    EXPECT_EQ(advice_at(base), "hg");
    EXPECT_EQ(advice_at(base + huge::kPageBytes - 1), "hg");
    h.allocate(t, {.size = 3_MiB});
    EXPECT_EQ(h.page_index().covered() * H::kGranule % huge::kPageBytes, 0u);
  });
}

TEST(HugeAdvice, InAHeapOfHugePagesOnlyBlocksOfManyAreMoved) {
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    const Block small = h.allocate(t, {.size = 1_MiB});
    const Block next = h.allocate(t, {.size = 64_KiB});
    EXPECT_TRUE(h.resize_by_moving(t, small, 4_MiB)) << "nothing has asked yet";
    const Block large = h.allocate(t, {.size = 8_MiB});
    const Block one = h.allocate(t, {.size = 1_MiB});
    ASSERT_EQ(advice_at(large.end() - 1), "hg");
    EXPECT_FALSE(h.resize_by_moving(t, one, 2_MiB));
    std::memset(large.ptr, 7, large.size);
    const Block moved = h.resize_by_moving(t, large, 16_MiB);
    ASSERT_TRUE(moved);
    EXPECT_EQ(moved.ptr[8_MiB - 1], std::byte{7});
    h.trim(t);  // it rests, and asks for none
    EXPECT_TRUE(h.resize_by_moving(t, one, 2_MiB));
    h.release(t, next);
    h.audit();
  });
}

// If this failed, a heap of many blocks that grow would have two mappings for each, of which a process may have 65530: the program could
// then start no thread and load no library.
TEST(HugeAdvice, BlocksThatAreSmallBesideTheHeapAreCopied) {
  using Small = Stack<Layers<SpanCache<purge::Never, huge::Never>, PageIndex, MmapHeap<>>>;
  for (const bool is_window_taken : {false, true}) {
    Stage<Small> stage;
    stage.as(0, [&](Small& h, auto& t) {
      const Block b = h.allocate(t, {.size = 192_KiB}), quarter = h.allocate(t, {.size = 256_KiB});
      EXPECT_FALSE(h.resize_by_moving(t, b, 320_KiB));
      const Block moved = h.resize_by_moving(t, quarter, 512_KiB);
      EXPECT_TRUE(moved);
      // Windows of heaps overlap: in so many steps there may be another one's memory, and the block lies behind that.
      std::byte* const others = h.page_index().granule_at(0) + 4_GiB;
      if (is_window_taken) {
        ASSERT_EQ(os::map_at(others, 64_KiB), os::MapAt::done);
      }
      const Block most = h.allocate(t, {.size = 8_GiB});
      ASSERT_TRUE(most);
      EXPECT_FALSE(h.resize_by_moving(t, moved, 1_MiB)) << "of a heap of 8 GiB there may be more than 16384 of these";
      const std::size_t reach = h.page_index().covered() * Small::kGranule, enough = round_up(reach / 8192, Small::kGranule);
      const Block one = h.allocate(t, {.size = enough});
      EXPECT_TRUE(h.resize_by_moving(t, one, 2 * enough)) << enough << " of " << reach;
      h.release(t, most);
      h.audit();
      if (is_window_taken) os::unmap(others, 64_KiB);
    });
  }
}

TEST(HugeAdvice, StaysWhereTheUserGaveIt) {
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    h.set_huge_pages(HugePages::madvise);
    const Block b = h.allocate(t, {.size = 8_MiB});
    h.release(t, b);
    h.trim(t);
    EXPECT_EQ(advice_at(b.ptr), "hg");
  });
}

}  // namespace
}  // namespace mortise::test
