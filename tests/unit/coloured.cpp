// If this failed, two cores would be given neighbours on one cache line, a program that moves to another core would leave its memory
// behind, or a block freed after its span changed hands would be reported as a crime.
#include "mortise/policy/coloured.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "mortise/backbone/slab.hpp"
#include "mortise/cache/batched_free.hpp"
#include "mortise/cache/core_cache.hpp"
#include "mortise/cache/span_cache.hpp"
#include "mortise/source/mmap_heap.hpp"
#include "tests/support/stage.hpp"

namespace mortise::test {
namespace {

using Plain = classes::Geometric<8>;
using Classes = classes::Coloured<Plain>;
using H = Stack<Layers<Slab<Classes>, SpanCache<>, PageIndex, MmapHeap<>>>;
constexpr std::size_t kGranule = IndexOf<H>::kGranule;

std::vector<std::byte*> take(H& h, H::Thread& t, unsigned c, unsigned n) {
  std::vector<std::byte*> blocks(n);
  EXPECT_EQ(h.allocate_batch(t, c, blocks.data(), n), n);
  return blocks;
}
std::size_t live(H& h) {
  Usage u;
  h.tell(u);
  return u.live;
}
std::size_t mapped(H& h) {
  Usage u;
  h.tell(u);
  return u.mapped - u.dirty - u.purged;
}

TEST(Coloured, EveryClassIsAColourOfOneOfTheBase) {
  for (unsigned c = 1; c <= Plain::kCount; ++c)
    for (unsigned colour = 0; colour < Classes::kColours; ++colour) {
      const unsigned in = Classes::in_colour(c, colour);
      ASSERT_LE(in, Classes::kCount);
      ASSERT_EQ(Classes::plain(in), c);
      ASSERT_EQ(Classes::size_of(in), Plain::size_of(c));
      ASSERT_EQ(Classes::colour_of(in), Plain::size_of(c) <= 1_KiB ? colour : 0) << "large classes have one colour";
    }
}

TEST(Coloured, ColoursShareNoSpan) {
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    constexpr unsigned c = 2, other = Classes::in_colour(c, 1);
    std::vector<std::byte*> mine = take(h, t, c, 10), theirs = take(h, t, other, 10);
    for (std::byte* a : mine)
      for (std::byte* b : theirs) ASSERT_NE(h.page_index().span_of(a), h.page_index().span_of(b));
    EXPECT_EQ(h.block_of(theirs[0]).size_class, other) << "its class brings a block back to its colour";
    h.release_batch(t, c, mine.data(), 10);
    h.release_batch(t, other, theirs.data(), 10);
    EXPECT_EQ(live(h), 0u);
  });
}

TEST(Coloured, AProgramThatChangesItsCoreTakesItsMemoryAlong) {
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    constexpr unsigned c = 4, other = Classes::in_colour(c, 1);
    const unsigned capacity = static_cast<unsigned>(kGranule / Classes::size_of(c));
    std::vector<std::byte*> blocks = take(h, t, c, 20 * capacity), kept;
    for (std::size_t i = 0; i < blocks.size(); i += 2) kept.push_back(blocks[i]), h.release_batch(t, c, &blocks[i + 1], 1);
    const std::size_t before = mapped(h), bytes = live(h);
    // One span may be new, until the first colour is seen to rest.
    std::vector<std::byte*> more = take(h, t, other, capacity);
    for (int i = 0; i < 9; ++i)
      for (std::byte* p : take(h, t, other, capacity)) more.push_back(p);
    EXPECT_LE(mapped(h), before + kGranule);
    EXPECT_EQ(live(h), bytes + more.size() * Classes::size_of(c));
    h.audit();
    // Blocks of spans that changed hands come back under the old class, mixed with others, as from a magazine.
    h.release_batch(t, c, kept.data(), static_cast<unsigned>(kept.size()));
    h.release_batch(t, other, more.data(), static_cast<unsigned>(more.size()));
    h.audit();
    EXPECT_EQ(live(h), 0u);
  });
}

TEST(Coloured, AColourThatWorksKeepsItsSpans) {
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    constexpr unsigned c = 4, other = Classes::in_colour(c, 1);
    const unsigned capacity = static_cast<unsigned>(kGranule / Classes::size_of(c));
    std::vector<std::byte*> mine = take(h, t, c, capacity / 2), theirs;
    for (int round = 0; round < 4; ++round) {
      for (std::byte* p : take(h, t, other, capacity)) theirs.push_back(p);
      for (std::byte* p : take(h, t, c, 1)) mine.push_back(p);
    }
    for (std::byte* p : mine) ASSERT_EQ(h.block_of(p).size_class, c);
    h.release_batch(t, c, mine.data(), static_cast<unsigned>(mine.size()));
    h.release_batch(t, other, theirs.data(), static_cast<unsigned>(theirs.size()));
  });
}

TEST(Coloured, WhatIsSaidOfASizeIsTrueOfAllItsColours) {
  using Cached = Stack<Layers<CoreCache<>, BatchedFree<>, Slab<Classes>, SpanCache<>, PageIndex, MmapHeap<>>>;
  constexpr std::size_t kBytes = 64;
  constexpr unsigned kMany = static_cast<unsigned>(2 * kGranule / kBytes);
  Stage<Cached> stage(2);
  std::size_t held = 0;
  stage.as(0, [&](Cached& h, auto& t) {
    std::vector<Block> blocks(kMany / 4);
    for (Block& b : blocks) b = h.allocate(t, {.size = kBytes});
    for (std::size_t i = 0; i < blocks.size(); ++i)  // caches are left with blocks of the slab that the other core takes over
      if (i % 8) h.release(t, blocks[i]);
      else ++held;
  });
  stage.as(1, [&](Cached& h, auto& t) {
    for (unsigned i = 0; i < kMany; ++i, ++held) ASSERT_TRUE(h.allocate(t, {.size = kBytes}));
  });
  ClassUsage classes[256];
  Usage u;
  u.classes = classes;
  u.classes_max = 256;
  stage.heap().tell(u);
  unsigned rows = 0;
  for (const ClassUsage& k : classes) {
    if (k.block_bytes != kBytes) continue;
    ++rows;
    EXPECT_EQ(k.live, held);
    EXPECT_EQ(k.live * kBytes + u.cached, k.span_bytes) << "there is no other size: what is not held is free";
  }
  EXPECT_EQ(rows, 1u);
}

}  // namespace
}  // namespace mortise::test
