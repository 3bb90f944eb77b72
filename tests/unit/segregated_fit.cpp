// If this failed, free blocks would stay with their class for ever, or a span would go back with a block of the program's in it.
#include "mortise/backbone/segregated_fit.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "mortise/cache/span_cache.hpp"
#include "mortise/guard/guard_pages.hpp"
#include "mortise/shape/limited_to.hpp"
#include "mortise/shape/stays_mapped.hpp"
#include "mortise/source/mmap_heap.hpp"
#include "tests/support/stage.hpp"

namespace mortise::test {
namespace {

template <class Sync> using Over = Stack<Layers<SegregatedFit<classes::Geometric<4, 32_KiB>, Sync>, SpanCache<>, PageIndex, StaysMapped, MmapHeap<>>>;

template <class Sync> class Segregated : public ::testing::Test {};
using Bins = ::testing::Types<LockFreeBin, LockedBin<>>;
TYPED_TEST_SUITE(Segregated, Bins);

TYPED_TEST(Segregated, WholeSpansGoBackAndOthersStay) {
  using H = Over<TypeParam>;
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    std::vector<Block> blocks;
    for (int i = 0; i < 10'000; ++i) blocks.push_back(h.allocate(t, {.size = 112}));
    const Block kept = blocks[5000];
    std::memset(kept.ptr, 0x5a, kept.size);
    for (const Block b : blocks)
      if (b.ptr != kept.ptr) h.release(t, b);
    h.trim(t);
    Usage u;
    h.tell(u);
    EXPECT_EQ(u.live, kept.size);
    EXPECT_LT(u.cached, 64_KiB) << "more than the span of the kept block was held";
    for (std::size_t i = 0; i < kept.size; ++i) ASSERT_EQ(kept.ptr[i], std::byte{0x5a});
    h.release(t, kept);
    h.audit();
  });
}

/// A class that was refused its first block at a limit would keep the span for ever, with the pages that another block had touched.
TYPED_TEST(Segregated, ASpanOfWhichALimitLetNothingBeTouchedGoesBack) {
  using H = Stack<Layers<SegregatedFit<classes::Geometric<4, 32_KiB>, TypeParam>, SpanCache<>, PageIndex, StaysMapped, LimitedTo<>, MmapHeap<>>>;
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    const Block large = h.below.allocate(t, {.size = 1_MiB});
    std::memset(large.ptr, 1, large.size);
    h.below.release(t, large);
    h.set_limit_bytes(1);
    EXPECT_FALSE(h.allocate(t, {.size = 100}));
    h.set_limit_bytes(kNoLimit);
    h.trim(t);
    Usage u;
    h.tell(u);
    EXPECT_EQ(u.cached, 0u);
    EXPECT_EQ(h.taken_bytes(), u.mapped) << "what is free counts";
    EXPECT_TRUE(h.allocate(t, {.size = 100}));
  });
}

TYPED_TEST(Segregated, ManyReleasesAreSortedOutWithoutATrim) {
  using H = Over<TypeParam>;
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    std::vector<Block> blocks;
    for (int i = 0; i < 100'000; ++i) blocks.push_back(h.allocate(t, {.size = 64}));
    for (const Block b : blocks) h.release(t, b);
    Usage u;
    h.tell(u);
    EXPECT_LT(u.cached, 2_MiB) << "of six";
  });
}

TYPED_TEST(Segregated, AWantForOneSizeFindsWhatLiesInAnother) {
  using H = Over<TypeParam>;
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    std::vector<Block> blocks;
    for (int i = 0; i < 3000; ++i) blocks.push_back(h.allocate(t, {.size = 300}));
    for (const Block b : blocks) h.release(t, b);
    Usage before, after;
    h.tell(before);
    h.trim(t);
    for (int i = 0; i < 1000; ++i) ASSERT_TRUE(h.allocate(t, {.size = 900}));
    h.tell(after);
    EXPECT_EQ(after.mapped, before.mapped);
  });
}

/// What large blocks were is free memory that counts, and cannot be given back: small blocks have to come out of it.
TYPED_TEST(Segregated, WhatWasFreedOfOneSizeCanBeHadInAnotherAtALimit) {
  using H = Stack<Layers<SegregatedFit<classes::Geometric<4, 32_KiB>, TypeParam>, SpanCache<>, PageIndex, StaysMapped, LimitedTo<32_MiB>, MmapHeap<>>>;
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    const auto fill = [&](std::size_t size) {
      std::vector<Block> blocks;
      while (const Block b = h.allocate(t, {.size = size})) {
        std::memset(b.ptr, 1, size);
        blocks.push_back(b);
      }
      for (const Block b : blocks) h.release(t, b);
      h.trim(t);
      h.audit();
      Usage u;
      h.tell(u);
      EXPECT_LE(h.taken_bytes(), u.mapped) << "something counts twice";
      return blocks.size() * size;
    };
    for (int round = 0; round < 3; ++round)
      for (const std::size_t size : {300'000, 66'000, 3'000'000, 48, 1000, 20'000}) EXPECT_GE(fill(size), 25_MiB) << size;
  });
}

TYPED_TEST(Segregated, StandsOnMemoryThatMayVanishOnlyWhereNobodyReadsWhatWasTaken) {
  using Spans = Stack<Layers<SpanCache<>, PageIndex, MmapHeap<>>>;
  EXPECT_EQ((FitsOn<SegregatedFit<classes::Geometric<4, 32_KiB>, TypeParam>, Spans>), !TypeParam::kReadsTakenBlocks);
}

/// A slow pop reads a block of a span that has gone back meanwhile: its address must be one that may be read.
TEST(SegregatedFit, WithoutLocksStandsWhereSpansStayMapped) {
  using Free = SegregatedFit<classes::Geometric<8>, LockFreeBin>;
  using Locked = SegregatedFit<classes::Geometric<8>, LockedBin<>>;
  using Ground = Layers<PageIndex, StaysMapped, MmapHeap<>>;
  static_assert(FitsOn<Free, Stack<Join<Layers<SpanCache<>>, Ground>>> && FitsOn<Locked, Stack<Ground>>);
  static_assert(!FitsOn<Free, Stack<Ground>>, "spans that nobody keeps are unmapped");
  using Walled = Stack<Join<Layers<GuardPages<>, SpanCache<>>, Ground>>;
  static_assert(!FitsOn<Free, Walled> && FitsOn<Locked, Walled>, "of those that go back a page may be forbidden");
}

}  // namespace
}  // namespace mortise::test
