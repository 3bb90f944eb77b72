// If this failed, an honest program would be accused of a write after free: of what it wrote while the memory was another block's.
#include "mortise/guard/zero_on_free.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include "mortise/allocators/hslab.hpp"
#include "mortise/backbone/segregated_fit.hpp"
#include "mortise/guard/delayed_free.hpp"
#include "mortise/guard/header_magic.hpp"
#include "mortise/guard/sealed_tail.hpp"
#include "mortise/guard/tail_checksum.hpp"
#include "mortise/shape/sized_header.hpp"
#include "tests/support/stage.hpp"

namespace mortise::test {
namespace {

std::optional<Crime> accused;
struct Noted {
  static constexpr const char* kName = "Noted";
  static void answer(const Crime& crime) noexcept { accused = crime; }
};
using H = Stack<Join<Layers<ZeroOnFree<Noted, 0>>, HslabOver<BlockMarks<>, MmapHeap<>>>>;
using Classes = H::Classes;

class ZeroOnFreeBlocks : public ::testing::Test {
 protected:
  void SetUp() override { accused.reset(); }

  Block take(Request r) {
    const Block b = stage_.as(0, [&](H& h, auto& t) { return h.allocate(t, r); });
    EXPECT_TRUE(b);
    return b;
  }
  /// A block that its owner writes to.
  Block filled(std::size_t n) {
    const Block b = take({.size = n});
    std::memset(b.ptr, 0x41, b.size);
    return b;
  }
  void release(Block b) {
    stage_.as(0, [&](H& h, auto& t) { h.release(t, h.block_of(b.ptr)); });
  }
  void release(const std::vector<Block>& blocks) {
    for (const Block b : blocks) release(b);
  }
  void trim() {
    stage_.as(0, [](H& h, auto& t) { trim_below(h, t); });
  }
  std::vector<Block> fill(std::size_t each, std::size_t total) {
    std::vector<Block> blocks;
    for (; total >= each; total -= each) blocks.push_back(filled(each));
    return blocks;
  }
  Stage<H> stage_;
};

/// Where a large block begins, a smaller one may have lain half in it and half before it: where the one before has its tail.
TEST_F(ZeroOnFreeBlocks, WhatALargeBlockLeftInTheMiddleOfASmallerOneIsNotBlamed) {
  constexpr std::size_t kTotal = 1_MiB;
  for (unsigned c = Classes::class_of(8_KiB); c <= Classes::class_of(Classes::kMaxBytes); ++c)
    for (const std::size_t n : {324_KiB, 384_KiB + 4_KiB, 400_KiB}) {
      release(fill(Classes::size_of(c), kTotal));
      trim();  // the slabs become free spans
      release(fill(n, kTotal));
      release(fill(Classes::size_of(c), kTotal));
      ASSERT_FALSE(accused) << Classes::size_of(c) << " bytes, where a large block had " << n;
    }
}

/// Slabs of some classes and large blocks that are resized, in turn.
TEST_F(ZeroOnFreeBlocks, NorIsWhatBlocksOfAllSizesLeftWhereOthersWere) {
  std::mt19937_64 random(42);
  for (unsigned round = 0; round < 300; ++round) {
    std::vector<Block> held;
    for (unsigned classes = 1 + random() % 3; classes > 0; --classes)
      for (const Block b : fill(1 + random() % Classes::kMaxBytes, 512_KiB)) held.push_back(b);
    std::shuffle(held.begin(), held.end(), random);
    release(held);
    trim();
    ASSERT_FALSE(accused) << round;
    held.clear();
    for (unsigned large = 1 + random() % 6; large > 0; --large) held.push_back(filled(Classes::kMaxBytes + random() % 512_KiB));
    for (Block& b : held) {
      const Block resized = stage_.as(0, [&](H& h, auto& t) { return resize_below(h, t, h.measure(b), Classes::kMaxBytes + random() % 512_KiB); });
      if (!resized) continue;
      std::memset(resized.ptr, 0x42, resized.size);
      b = resized;
    }
    std::shuffle(held.begin(), held.end(), random);
    release(held);
    ASSERT_FALSE(accused) << round;
  }
}

/// It zeroes the whole of a block, of which a hit may be refused then: whoever looks at the tail, above or below, would find none.
TEST(ZeroOnFreeAndTails, DoNotGoTogether) {
  using Zeroing = Stack<Layers<ZeroOnFree<Noted, 0>, DelayedFree<8_KiB>>, HslabOver<BlockMarks<2>, MmapHeap<>>>;
  using Tails = Stack<Layers<TailChecksum<>, DelayedFree<8_KiB>>, HslabOver<BlockMarks<2>, MmapHeap<>>>;
  EXPECT_FALSE((FitsOn<TailChecksum<>, Zeroing>));
  EXPECT_FALSE((FitsOn<TailChecksum<>, Stack<Layers<HeaderMagic<Noted, 1>, ZeroOnFree<Noted, 0>>, HslabOver<BlockMarks<2>, MmapHeap<>>>>));
  EXPECT_FALSE((FitsOn<SealedTail<Noted>, Zeroing>));
  EXPECT_FALSE((FitsOn<ZeroOnFree<Noted, 0>, Tails>));
}

TEST_F(ZeroOnFreeBlocks, AWriteAfterFreeIsFoundAtReuse) {
  for (const std::size_t n : {16, 1000, 40'000, 250'000}) {
    const Block b = filled(n);
    release(b);
    b.ptr[b.size - 1] = std::byte{1};
    std::vector<Block> taken;
    while (!accused && taken.size() < 100) taken.push_back(take({.size = n}));
    ASSERT_TRUE(accused) << n;
    EXPECT_EQ(accused->fault, Fault::write_after_free);
    EXPECT_EQ(accused->block.ptr, b.ptr);
    accused.reset();
    release(taken);
  }
}

/// Beyond what a class can align to, a small request is served as a large one.
TEST_F(ZeroOnFreeBlocks, ZeroesAreZeroesWhateverTheAlignment) {
  release(filled(300_KiB));  // a span that is dirty
  const Block b = take({.size = 100_KiB, .align = 32_KiB, .zeroed = true});
  for (std::size_t i = 0; i < 100_KiB; ++i) ASSERT_EQ(b.ptr[i], std::byte{0}) << i;
  release(b);
}

/// Their link, header or tail was taken for a write after free.
TEST(ZeroOnFree, NobodyBelowWritesIntoReleasedBlocks) {
  using Ground = Layers<SpanCache<>, PageIndex, BlockMarks<2>, MmapHeap<>>;
  using Slabs = Join<Layers<Slab<>>, Ground>;
  static_assert(FitsOn<ZeroOnFree<>, Stack<Slabs>>);
  static_assert(!FitsOn<ZeroOnFree<>, Stack<Join<Layers<SegregatedFit<classes::Geometric<8>, LockedBin<>>>, Ground>>>);
  static_assert(!FitsOn<ZeroOnFree<>, Stack<Join<Layers<SizedHeader>, Slabs>>>);
  using Tails = TailChecksum<tag::Mixed, on_fault::Abort, false>;
  static_assert(!FitsOn<ZeroOnFree<>, Stack<Join<Layers<Tails>, Slabs>>>);
}

}  // namespace
}  // namespace mortise::test
