// If this failed, the first blocks of all size classes would meet in one set of a cache, or a span would lose the blocks before its first.
#include "mortise/backbone/slab.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "mortise/cache/slab_array_cache.hpp"
#include "mortise/cache/span_cache.hpp"
#include "mortise/cache/span_reserve.hpp"
#include "mortise/guard/guard_pages.hpp"
#include "mortise/guard/header_magic.hpp"
#include "mortise/guard/sampled_guards.hpp"
#include "mortise/guard/tail_checksum.hpp"
#include "mortise/shape/aligned.hpp"
#include "mortise/shape/limited_to.hpp"
#include "mortise/shape/sized_header.hpp"
#include "mortise/source/mmap_heap.hpp"
#include "tests/support/stage.hpp"

namespace mortise::test {
namespace {

using Classes = classes::Geometric<8>;
using H = Stack<Layers<Slab<Classes>, SpanCache<>, PageIndex, LimitedTo<>, MmapHeap<>>>;
using Geometry = SlabGeometry<Classes, IndexOf<H>::kGranule>;

TEST(Slab, FirstBlocksOfSmallClassesLieOnDifferentLinesOfAPage) {
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    std::set<std::size_t> lines;
    unsigned classes = 0;
    for (unsigned c = 1; Classes::size_of(c) <= 128; ++c, ++classes) {
      std::byte* p;
      ASSERT_EQ(h.allocate_batch(t, c, &p, 1), 1u);
      lines.insert(reinterpret_cast<std::uintptr_t>(p) % 4_KiB / 64);
    }
    EXPECT_GT(lines.size(), classes / 2);
  });
}

TEST(Slab, ASpanHandsOutEachOfItsBlocksOnce) {
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    for (unsigned c = 1; c <= Classes::kCount; ++c) {
      std::byte* block;
      ASSERT_EQ(h.allocate_batch(t, c, &block, 1), 1u);
      Span* const s = h.page_index().span_of(block);
      std::byte* const base = h.page_index().base_of(s);
      const unsigned first = Geometry::first_of(c, s->head);
      EXPECT_EQ(block, base + first * Classes::size_of(c));
      std::vector<std::byte*> all{block};
      std::set<std::byte*> seen{block};
      while (s->free) {
        h.audit();
        const unsigned n = s->free < 7 ? s->free : 7;
        std::byte* some[7];
        ASSERT_EQ(h.allocate_batch(t, c, some, n), n);
        for (unsigned i = 0; i < n; ++i) {
          ASSERT_EQ(h.page_index().span_of(some[i]), s);
          ASSERT_TRUE(seen.insert(some[i]).second) << "given out twice";
          ASSERT_TRUE(some[i] >= block || all.size() >= s->capacity - first) << "those before the first come last";
          all.push_back(some[i]);
        }
      }
      EXPECT_EQ(all.size(), s->capacity);
      EXPECT_EQ(*seen.begin(), base);
      h.release_batch(t, c, all.data(), static_cast<unsigned>(all.size()));
      h.audit();
    }
    std::size_t live = 0;
    h.each_live([&](Block) { ++live; });
    EXPECT_EQ(live, 0u);
  });
}

/// If this failed, batches of large blocks would pay for a span of their own at every eighth block, or long spans would be kept for nothing.
TEST(Slab, SpansOfAClassThatHasManyAreLonger) {
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    for (const std::size_t size : {1_KiB, 4_KiB, 16_KiB, 20_KiB, 80_KiB, 256_KiB}) {
      const unsigned c = Classes::class_of(size);
      std::vector<std::byte*> blocks(1000);
      ASSERT_EQ(h.allocate_batch(t, c, blocks.data(), 1000), 1000u);
      h.audit();
      std::vector<std::size_t> lengths;
      const Span* last = nullptr;
      for (std::byte* p : blocks)
        if (const Span* s = h.page_index().span_of(p); s != last) {
          EXPECT_EQ(s->capacity, s->granules * IndexOf<H>::kGranule / size);
          lengths.push_back(h.page_index().bytes_of(last = s));
        }
      for (std::size_t i = 1; i < lengths.size(); ++i) {
        EXPECT_GE(lengths[i], lengths[i - 1]);
        EXPECT_LE(lengths[i], i < 4 ? Geometry::span_bytes(c) : 2 * std::max(lengths[i - 4], Geometry::span_bytes(c)));
        EXPECT_LE(lengths[i], 1_MiB);
      }
      EXPECT_GE(lengths.back() / size, 1_MiB / size < 64 ? 1_MiB / size / 2 : 64u);
      for (unsigned odd = 0; odd < 2; ++odd) {  // every second block: spans wander from list to list
        std::vector<std::byte*> half;
        for (unsigned i = odd; i < 1000; i += 2) half.push_back(blocks[i]);
        h.release_batch(t, c, half.data(), 500);
        h.audit();
      }
      ClassUsage classes[Classes::kCount + 1];
      Usage u;
      u.classes = classes;
      u.classes_max = Classes::kCount + 1;
      h.tell(u);
      EXPECT_EQ(classes[c].live, 0u);
      EXPECT_LE(classes[c].span_bytes, Geometry::span_bytes(c));
    }
  });
}

/// If this failed, a program near its limit would be refused blocks for which there is room.
TEST(Slab, WithoutRoomForALongSpanAShorterOneServes) {
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    const unsigned c = Classes::class_of(16_KiB);
    std::vector<std::byte*> blocks(1000);
    ASSERT_EQ(h.allocate_batch(t, c, blocks.data(), 500), 500u);
    h.set_limit_bytes(h.taken_bytes() + 64_KiB + Geometry::span_bytes(c));
    unsigned more = 0;
    while (h.allocate_batch(t, c, &blocks[500 + more], 1)) ++more;
    EXPECT_GE(more, 8u);
    h.set_limit_bytes(kNoLimit);
  });
}

/// If this failed, a program at its limit would be refused blocks that are there.
TEST(Slab, WhatLiesBeforeTheFirstBlockIsServedAtALimit) {
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    for (unsigned c = 1; Classes::size_of(c) <= 64; ++c) {
      std::byte* block;
      ASSERT_EQ(h.allocate_batch(t, c, &block, 1), 1u);
      Span* const s = h.page_index().span_of(block);
      const unsigned before = Geometry::first_of(c, s->head);
      h.set_limit_bytes(1);
      std::vector<std::byte*> more(before + 1);
      EXPECT_EQ(h.allocate_batch(t, c, more.data(), before + 1), before);
      h.set_limit_bytes(kNoLimit);
    }
  });
}

/// A slab takes a span for all that it gets: beside a header, in a page of its own or in front of a wall it would write over another's.
TEST(Slab, StandsOnWholeSpans) {
  using Ground = Layers<PageIndex, MmapHeap<>>;
  using Spans = Join<Layers<SpanCache<>>, Ground>;
  using Walled = Stack<Join<Layers<GuardPages<>>, Spans>>;
  static_assert(FitsOn<Slab<>, Stack<Spans>> && FitsOn<Slab<>, Walled> && FitsOn<SlabArrayCache<>, Stack<Spans>>);
  static_assert(!FitsOn<Slab<>, Stack<Join<Layers<Slab<>>, Spans>>> && !FitsOn<SpanReserve<>, Stack<Join<Layers<Slab<>>, Spans>>>);
  static_assert(!FitsOn<Slab<>, Stack<Join<Layers<SizedHeader>, Spans>>> && !FitsOn<Slab<>, Stack<Join<Layers<TailChecksum<>>, Spans>>>);
  static_assert(!FitsOn<Slab<>, Stack<Join<Layers<SampledGuards<>>, Spans>>>);
  static_assert(!FitsOn<SlabArrayCache<>, Walled> && !FitsOn<GuardPages<>, Walled>);
  using Marked = Stack<Layers<HeaderMagic<>, PageIndex, BlockMarks<>, MmapHeap<>>>;
  static_assert(FitsOn<SpanCache<>, Stack<Ground>> && FitsOn<Slab<>, Marked> && !FitsOn<SpanCache<>, Marked>, "it takes spans apart that are marked");
  static_assert(!FitsOn<SpanCache<>, Stack<Spans>>, "it would merge its spans with free ones of the other's");
  static_assert(!FitsOn<Aligned, Stack<Join<Layers<TailChecksum<>, Slab<>>, Spans>>>, "blocks lie further apart than their classes are large");
}

}  // namespace
}  // namespace mortise::test
