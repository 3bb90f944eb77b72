// If this failed, buddies would not find each other, and a heap that was used once could never again serve a large block.
#include "mortise/backbone/buddy.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "mortise/os/residency.hpp"
#include "mortise/shape/limited_to.hpp"
#include "mortise/source/mmap_heap.hpp"
#include "mortise/source/static_heap.hpp"
#include "tests/support/stage.hpp"

namespace mortise::test {
namespace {

using H = Stack<Layers<Buddy<>, MmapHeap<>>>;

TEST(Buddy, BlocksAreAlignedToTheirSize) {
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    for (std::size_t size = 1; size <= 8_MiB; size = size * 3 / 2 + 1) {
      const Block b = h.allocate(t, {.size = size});
      ASSERT_TRUE(b);
      EXPECT_TRUE(is_power_of_two(b.size) && b.size >= size && (b.size == 32 || b.size < 2 * size));
      EXPECT_TRUE(is_aligned(b.ptr, b.size));
    }
    h.audit();
  });
}

TEST(Buddy, WhatABlockGivesBackGoesToTheSystem) {
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    const Block b = h.allocate(t, {.size = 4_MiB});
    std::memset(b.ptr, 0x5a, b.size);
    const Block shorter = h.resize_in_place(t, b, 100'000);
    EXPECT_EQ(shorter.ptr, b.ptr);
    EXPECT_EQ(shorter.ptr[99'999], std::byte{0x5a});
    EXPECT_LE(os::resident_bytes(b.ptr, 4_MiB, 4_KiB, 64_KiB), 256_KiB);
    h.audit();
  });
}

TEST(Buddy, HalvesBecomeWholeAgain) {
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    const Block whole = h.allocate(t, {.size = 256_KiB});
    h.release(t, whole);
    std::vector<Block> pieces;
    for (int i = 0; i < 8192; ++i) pieces.push_back(h.allocate(t, {.size = 32}));
    Usage full;
    h.tell(full);
    for (std::size_t i = 0; i < pieces.size(); i += 2) h.release(t, pieces[i]);
    h.audit();
    for (std::size_t i = 1; i < pieces.size(); i += 2) h.release(t, pieces[i]);
    h.audit();
    EXPECT_TRUE(h.allocate(t, {.size = 256_KiB}));
    Usage after;
    h.tell(after);
    EXPECT_EQ(after.mapped, full.mapped) << "pieces did not merge, and more was asked for";
  });
}

TEST(Buddy, GrowsIntoItsUpperHalvesAndGivesThemBack) {
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    const Block whole = h.allocate(t, {.size = 64_KiB});
    h.release(t, whole);
    Block b = h.allocate(t, {.size = 1000});
    b = h.resize_in_place(t, b, 2000);
    ASSERT_TRUE(b);
    EXPECT_EQ(b.size, 2048u);
    const Block in_the_way = h.allocate(t, {.size = 2048});
    EXPECT_EQ(in_the_way.ptr, b.end());
    EXPECT_FALSE(h.resize_in_place(t, b, 3000));
    b = h.resize_in_place(t, b, 10);
    EXPECT_EQ(b.size, 32u);
    h.audit();
    h.release(t, in_the_way);
    h.release(t, b);
    h.audit();
  });
}

TEST(Buddy, AnArenaIsUsedToTheLastUnit) {
  using Arena = Stack<Layers<Buddy<>, StaticHeap<1_MiB>>>;
  Stage<Arena> stage;
  stage.as(0, [](Arena& h, auto& t) {
    std::size_t got = 0;
    while (h.allocate(t, {.size = 32})) got += 32;
    EXPECT_GE(got, 1_MiB - 1_MiB / 32 - 8_KiB) << "beside the marks nothing is lost";
    h.audit();
  });
}

TEST(Buddy, UnderALimitABlockEndsWithItsPage) {
  using Limited = Stack<Layers<Buddy<>, LimitedTo<64_MiB>, MmapHeap<>>>;
  Stage<Limited> stage;
  stage.as(0, [](Limited& h, auto& t) {
    const Block whole = h.allocate(t, {.size = 64_KiB});
    EXPECT_EQ(whole.size, 64_KiB);
    const std::size_t before = h.taken_bytes();
    h.release(t, whole);
    Block b = h.allocate(t, {.size = 33'000});
    EXPECT_EQ(b.size, 36_KiB);
    EXPECT_EQ(h.measure({b.ptr, 0}).size, b.size);
    EXPECT_EQ(h.taken_bytes(), before - 28_KiB);
    h.set_limit_bytes(64_KiB);
    EXPECT_FALSE(h.resize_in_place(t, b, 40'000)) << "its tail would pass the limit";
    EXPECT_EQ(h.resize_in_place(t, b, 36_KiB).size, b.size);
    h.set_limit_bytes(64_MiB);
    b = h.resize_in_place(t, b, 40'000);
    EXPECT_EQ(b.size, 64_KiB);
    EXPECT_EQ(h.taken_bytes(), before);
    b = h.resize_in_place(t, b, 100);
    EXPECT_EQ(b.size, 128u);
    h.release(t, b);
    EXPECT_EQ(h.taken_bytes(), before);
    h.audit();
  });
}

TEST(Buddy, UnderALimitWhatIsLiveIsWhatBlocksHave) {
  using Limited = Stack<Layers<Buddy<>, LimitedTo<4_MiB>, MmapHeap<>>>;
  Stage<Limited> stage;
  stage.as(0, [](Limited& h, auto& t) {
    std::vector<Block> blocks;
    std::size_t sum = 0, failed = 0;
    std::uint32_t random = 7;
    const auto below = [&](std::uint32_t most) { return (random = random * 1664525 + 1013904223) / 256 % most; };
    for (int i = 0; i < 5000; ++i) {
      const std::size_t size = 1 + below(1u << below(20));
      if (blocks.size() < 20 || below(2)) {
        if (const Block b = h.allocate(t, {.size = size})) blocks.push_back(b), sum += b.size;
        else ++failed;
      } else {
        Block& b = blocks[below(static_cast<std::uint32_t>(blocks.size()))];
        sum -= b.size;
        if (const Block resized = below(2) ? h.resize_in_place(t, b, size) : Block{}) {
          sum += (b = resized).size;
        } else {
          h.release(t, b);
          b = blocks.back();
          blocks.pop_back();
        }
      }
      Usage u;
      h.tell(u);
      ASSERT_EQ(u.live, sum) << "step " << i;
      ASSERT_EQ(u.mapped, u.live + u.cached + u.dirty + u.purged);
    }
    EXPECT_GT(failed, 0u) << "the limit was never met";
    h.audit();
    for (const Block b : blocks) h.release(t, b);
    Usage u;
    h.tell(u);
    EXPECT_EQ(u.live, 0u);
  });
}

TEST(Buddy, APlaceInsideABlockIsNoBlockThatWasFreed) {
  Stage<H> stage;
  EXPECT_DEATH(stage.as(0, [](H& h, auto& t) {
    const Block b = h.allocate(t, {.size = 33'000});
    h.release(t, {b.ptr + 32, 0});
  }), "invalid_free");
}

}  // namespace
}  // namespace mortise::test
