// If this failed, free(p) over a heap without a page index would release the wrong block, or take a foreign pointer for its own.
#include "mortise/shape/sized_header.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "mortise/backbone/slab.hpp"
#include "mortise/backbone/tlsf.hpp"
#include "mortise/cache/span_cache.hpp"
#include "mortise/guard/sampled_guards.hpp"
#include "mortise/route/affinity_pools.hpp"
#include "mortise/source/malloc_heap.hpp"
#include "mortise/source/mmap_heap.hpp"
#include "mortise/source/static_heap.hpp"
#include "mortise/sync/unsynchronised.hpp"
#include "mortise/watch/sampled.hpp"
#include "tests/support/stage.hpp"

namespace mortise::test {
namespace {

using H = Stack<Layers<SizedHeader, MallocHeap>>;

TEST(SizedHeader, KnowsSizeAndAlignmentFromThePointerAlone) {
  H h;
  H::Thread t;
  for (const std::size_t align : {16, 64, 4096}) {
    const Block b = h.allocate(t, {.size = 100, .align = align});
    ASSERT_TRUE(is_aligned(b.ptr, align));
    EXPECT_TRUE(h.holds(b.ptr));
    EXPECT_EQ(h.block_of(b.ptr).size, b.size);
    h.release(t, h.block_of(b.ptr));
  }
}

TEST(SizedHeader, NoticesAnOverwrittenHeaderAndAForeignPointer) {
  H h;
  H::Thread t;
  alignas(16) std::byte foreign[64] = {};
  EXPECT_FALSE(h.holds(foreign + 16));
  const Block b = h.allocate(t, {.size = 100});
  EXPECT_DEATH(
      {
        std::memset(b.ptr - 16, 0x41, 16);
        h.release(t, b);
      },
      "header_overwritten");
  h.release(t, b);
}

/// What is skipped for an alignment has 32 bits in the header: a larger one would be told to lie elsewhere, and released there.
TEST(SizedHeader, AnAlignmentThatItsHeaderCannotHoldIsRefused) {
  using Large = Stack<Layers<SizedHeader, Tlsf<Unsynchronised>, MmapHeap<>>>;
  Stage<Large> stage;
  stage.as(0, [](Large& h, auto& t) {
    for (std::size_t align = 32; align <= 1_TiB; align *= 2) {
      const Block b = h.allocate(t, {.size = 100, .align = align});
      EXPECT_EQ(static_cast<bool>(b), align <= 32_GiB) << align;
      if (!b) continue;
      EXPECT_TRUE(is_aligned(b.ptr, align));
      h.release(t, h.block_of(b.ptr));
    }
    h.audit();
  });
}

/// The first block of a mapping, asked about by who looks whose it is: there is nothing before it to be read.
TEST(SizedHeader, DoesNotReadBeforeABlockThatIsNotBelow) {
  using Arena = Stack<Layers<SizedHeader, Tlsf<Unsynchronised>, StaticHeap<64_KiB>>>;
  using Bare = Stack<Layers<SizedHeader, StaticHeap<64_KiB>>>;
  const auto arena = std::make_unique<Arena>();
  const auto bare = std::make_unique<Bare>();
  ASSERT_TRUE(start_below(*arena, own_facts()));
  std::byte* const before = os::map(128_KiB);
  ASSERT_TRUE(before);
  os::unmap(before, 64_KiB);
  EXPECT_FALSE(arena->holds(before + 64_KiB));
  EXPECT_FALSE(bare->holds(before + 64_KiB));
  os::unmap(before + 64_KiB, 64_KiB);
}

/// What is skipped for an alignment lies in the block of the header below: there is none of that one before the pointer.
TEST(SizedHeader, AboveAnotherFindsItsAlignedBlocks) {
  using Two = Stack<Layers<SizedHeader, SizedHeader, MmapHeap<>>>;
  Stage<Two> stage;
  stage.as(0, [](Two& h, auto& t) {
    for (const std::size_t align : {16, 64, 16384}) {
      const Block b = h.allocate(t, {.size = 300, .align = align});
      ASSERT_TRUE(h.holds(b.ptr)) << align;
      h.release(t, h.block_of(b.ptr));
    }
  });
}

/// A guarded or sampled block lies in a block of what is below, and has no header of that one.
TEST(SizedHeader, StandsAboveWhatCarvesBlocksUp) {
  using Bare = Stack<Layers<SizedHeader, MmapHeap<>>>;
  using Slabs = Stack<Layers<SizedHeader, Slab<>, SpanCache<>, PageIndex, MmapHeap<>>>;
  static_assert(!FitsOn<SampledGuards<>, Bare> && !FitsOn<SampledGuards<>, Slabs> && !FitsOn<Sampled<>, Slabs>);
  static_assert(FitsOn<AffinityPools<>, Bare>, "pools have a range of their own");
}

}  // namespace
}  // namespace mortise::test
