// If this failed, a write past the end of a block would be found late, or never.
#include "mortise/guard/tail_checksum.hpp"

#include <gtest/gtest.h>

#include "mortise/allocators/hslab.hpp"
#include "tests/support/stage.hpp"

namespace mortise::test {
namespace {

unsigned called = 0;
void count(const Crime& crime) noexcept { called += crime.fault == Fault::tail_overwritten; }
using Counting = Stack<Layers<TailChecksum<tag::Mixed, on_fault::CallBack<count>>>, HslabLayers>;
using Abiding = Stack<Layers<TailChecksum<tag::Xor>>, HslabLayers>;

/// Every byte behind every size up to a few classes: the first 7, and all of the last word, are watched.
TEST(TailChecksum, EveryFirstByteIsWatched) {
  Stage<Counting> stage;
  stage.as(0, [](Counting& h, auto& t) {
    for (std::size_t n = 1; n <= 300; ++n) {
      const Block b = h.allocate(t, {.size = n});
      ASSERT_EQ(b.size, n);
      for (std::size_t at = n; at < n + 7; ++at) {
        const std::byte kept = b.ptr[at];
        b.ptr[at] ^= std::byte{0x80};
        called = 0;
        h.measure(h.block_of(b.ptr));
        EXPECT_EQ(called, 1u) << "byte " << at << " of a block of " << n;
        b.ptr[at] = kept;
      }
      called = 0;
      h.release(t, b);
      EXPECT_EQ(called, 0u) << n;
    }
  });
}

/// At once, with the tail behind the new end; never for what is not whole or belongs into another class.
TEST(TailChecksum, AResizeWithinAClassIsAHit) {
  Stage<Counting> stage;
  stage.as(0, [](Counting& h, auto& t) {
    called = 0;
    for (std::size_t n = 2; n <= 1500; n += n < 70 ? 1 : 23) {
      const Block b = h.allocate(t, {.size = n});
      const Block found = h.block_of(b.ptr);
      const std::size_t most = h.below.measure({b.ptr, 0, b.class_index()}).size - 8;
      for (const std::size_t other : {most, n + (most - n) / 2, n}) {
        ASSERT_TRUE(h.resize_hit(found, other)) << n << " to " << other;
        EXPECT_EQ(h.measure(found).size, other);
        b.ptr[other] ^= std::byte{0x80};
        EXPECT_FALSE(h.resize_hit(found, n));
        b.ptr[other] ^= std::byte{0x80};
      }
      for (const std::size_t wrong : {most + 1, most + 9, std::size_t{0}, SIZE_MAX}) EXPECT_FALSE(h.resize_hit(found, wrong));
      h.release(t, h.block_of(b.ptr));
    }
    const Block large = h.allocate(t, {.size = 1_MiB});
    EXPECT_FALSE(h.resize_hit(h.block_of(large.ptr), 1_MiB));
    h.release(t, h.block_of(large.ptr));
    EXPECT_EQ(called, 0u);
  });
}

TEST(TailChecksum, AWalkFindsWhatNobodyHasReleasedYet) {
  Stage<Counting> stage;
  stage.as(0, [](Counting& h, auto& t) {
    Block blocks[50];
    for (std::size_t i = 0; i < 50; ++i) blocks[i] = h.allocate(t, {.size = 40 * (i + 1)});
    const Block large = h.allocate(t, {.size = 1_MiB});
    for (std::size_t i = 0; i < 50; i += 2) h.release(t, blocks[i]);
    called = 0;
    EXPECT_EQ(h.check_all(t), 0u);
    blocks[7].ptr[blocks[7].size] ^= std::byte{1};
    large.ptr[large.size] ^= std::byte{1};
    EXPECT_EQ(h.check_all(t), 2u);
    EXPECT_EQ(called, 2u);
  });
}

TEST(TailChecksum, TheProgramEndsUnlessItsPolicyGoesOn) {
  Stage<Abiding> stage;
  stage.as(0, [](Abiding& h, auto& t) {
    const Block b = h.allocate(t, {.size = 100});
    b.ptr[100] = std::byte{0};
    EXPECT_DEATH(h.release(t, b), "fault=tail_overwritten");
  });
}

/// The upper of two would take the class for a block's size, where the lower has ended it with the request.
TEST(TailChecksum, IsTheOnlyGuardOfTailsAboveSizeClasses) {
  using Classes = Stack<Layers<Slab<>, SpanCache<>, PageIndex, MmapHeap<>>>;
  using Tails = Stack<Layers<TailChecksum<>, Slab<>, SpanCache<>, PageIndex, MmapHeap<>>>;
  static_assert(FitsOn<TailChecksum<>, Classes> && !FitsOn<TailChecksum<>, Tails>);
}

}  // namespace
}  // namespace mortise::test
