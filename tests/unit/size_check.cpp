// If this failed, an honest delete would be called a mismatch, or one through the wrong type would pass.
#include "mortise/guard/size_check.hpp"

#include <gtest/gtest.h>

#include "mortise/allocators/hslab_hardened.hpp"
#include "mortise/guard/tail_checksum.hpp"
#include "mortise/shape/block_marks.hpp"
#include "mortise/shape/sized_header.hpp"
#include "mortise/watch/annotated.hpp"
#include "tests/support/stage.hpp"

namespace mortise::test {
namespace {

unsigned accused = 0;
void count(const Crime& crime) noexcept { accused += crime.fault == Fault::size_mismatch; }
using Checked = Stack<Layers<SizeCheck<on_fault::CallBack<count>>>, HslabLayers>;

/// Threads have cores, and cores colours, of their own; a colour is a class of its own, but not a size of its own.
TEST(SizeCheck, WhatWasAskedForIsRightInEveryColour) {
  Stage<Checked> stage(8);
  accused = 0;
  for (unsigned thread = 0; thread < 8; ++thread)
    for (std::size_t n = 1; n < 3000; n = n * 9 / 8 + 1)
      stage.as(thread, [n](Checked& h, auto& t) {
        const Block b = h.allocate(t, {.size = n});
        h.check_size(b.ptr, n, 1);
        ASSERT_EQ(accused, 0u) << n;
        h.check_size(b.ptr, n * 2 + 16, 1);
        ASSERT_EQ(accused, 1u) << n;
        accused = 0;
        h.release(t, b);
      });
}

/// The short way of a sized delete takes whole blocks of that very size, and leaves all others as they are for the long one to judge.
TEST(SizeCheck, ASizedHitIsOfThatSizeAndWhole) {
  using H = HslabHardenedHeap;
  Stage<H> stage;
  for (std::size_t n = 1; n < 3000; n = n * 9 / 8 + 1)
    stage.as(0, [n](H& h, auto& t) {
      h.release(t, h.allocate(t, {.size = n}));  // so that there is a place for one more
      const Block b = h.allocate(t, {.size = n});
      const auto hit = [&](std::size_t size) { return h.release_hit_of_size(t, h.block_of(b.ptr), size); };
      for (const std::size_t wrong : {std::size_t{0}, n - 1, n + 1, n + 8, std::size_t{1} << 40})
        ASSERT_FALSE(hit(wrong)) << n << ' ' << wrong;
      b.ptr[n] ^= std::byte{1};
      ASSERT_FALSE(hit(n)) << n;
      b.ptr[n] ^= std::byte{1};
      ASSERT_EQ(h.measure({b.ptr, 0}).size, n) << "nothing has happened to it";
      if (!hit(n)) h.release(t, b);  // its batch was full
      else ASSERT_FALSE(hit(n)) << "released once";
    });
}

/// Also of what has no class, and of what is larger than its request for its alignment's sake.
TEST(SizeCheck, LargeBlocksAreComparedToTheByteToo) {
  using H = Stack<Join<Layers<SizeCheck<on_fault::CallBack<count>>, SealedTail<>>, HslabOver<MmapHeap<>>>>;
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    for (const std::size_t align : {16, 32768, 1 << 20})
      for (const std::size_t n : {100, 70'000, 300'000, 5'000'000}) {
        const Block b = h.allocate(t, {.size = n, .align = align});
        EXPECT_EQ(b.size, n);
        accused = 0;
        h.check_size(b.ptr, n, align);
        EXPECT_EQ(accused, 0u) << n << " at " << align;
        for (const std::size_t wrong : {n - 1, n + 1, n / 2, n * 2}) h.check_size(b.ptr, wrong, align);
        EXPECT_EQ(accused, 4u) << n << " at " << align;
        h.release(t, b);
      }
  });
}

/// Below a guard that takes a part of each block, or a header, it would compare another block's pointer or size with the program's.
TEST(SizeCheck, StandsAboveWhatTakesAPartOfEachBlock) {
  using Ground = Layers<SizeCheck<>, Slab<>, SpanCache<>, PageIndex, BlockMarks<>, MmapHeap<>>;
  static_assert(!FitsOn<TailChecksum<>, Stack<Ground>> && !FitsOn<SealedTail<>, Stack<Ground>> && !FitsOn<SizedHeader, Stack<Ground>>);
  static_assert(!ChecksSizes<Stack<Join<Layers<Annotated<checker::Address>>, Ground>>>);
}

/// What was skipped for the alignment is not the block's: it need not be as large as its size rounded up.
TEST(SizeCheck, AnAlignedBlockBehindAHeaderIsAsLargeAsWasAskedFor) {
  using H = Stack<Layers<SizeCheck<on_fault::CallBack<count>>, SizedHeader, Slab<>, SpanCache<>, PageIndex, MmapHeap<>>>;
  Stage<H> stage;
  accused = 0;
  stage.as(0, [](H& h, auto& t) {
    for (std::size_t align = 32; align <= 1024; align *= 2)
      for (std::size_t n = 1; n < 3000; n = n * 9 / 8 + 1) {
        const Block b = h.allocate(t, {.size = n, .align = align});
        h.check_size(b.ptr, n, align);
        ASSERT_EQ(accused, 0u) << n << " at " << align;
      }
  });
}

}  // namespace
}  // namespace mortise::test
