// If this failed, a heap that gives pages back would wipe blocks of a program whose machine has pages of more than 4 KiB.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "mortise/backbone/slab.hpp"
#include "mortise/cache/span_cache.hpp"
#include "mortise/shape/block_marks.hpp"
#include "mortise/source/mmap_heap.hpp"
#include "tests/support/stage.hpp"

namespace mortise::test {
namespace {

constexpr std::size_t kPage = 16_KiB;

/// Purges as a kernel with larger pages: not from inside a page on, and always to the end of one.
struct LargePages {
  template <Heap Below> class Over : public Passthrough<Below> {
   public:
    bool purge_pages(std::byte* at, std::size_t bytes) noexcept {
      if (!is_aligned(at, kPage)) return false;
      std::memset(at, 0, round_up(bytes, kPage));
      return true;
    }
  };
};

os::Facts facts_of_large_pages() {
  os::Facts facts = own_facts();
  facts.page_bytes = kPage;
  return facts;
}

TEST(LargePages, WhatAProgramHoldsStaysWhenItsNeighboursArePurged) {
  using H = Stack<Layers<Slab<classes::Geometric<8>>, LargePages, SpanCache<>, PageIndex, MmapHeap<>>>;
  Stage<H> stage(1, false);
  ASSERT_TRUE(start_below(stage.heap(), facts_of_large_pages()));
  stage.as(0, [](H& h, auto& t) {
    std::mt19937 random(3);
    std::vector<Block> held, released;
    for (unsigned i = 0; i < 20'000; ++i) {
      const Block b = h.allocate(t, {.size = 64 + random() % 6000});
      ASSERT_TRUE(b);
      std::memset(b.ptr, 0x5a, b.size);
      (random() % 2 ? held : released).push_back(b);
    }
    for (const Block& b : released) h.release(t, b);
    EXPECT_GT(h.trim(t), 0u);
    for (const Block& b : held)
      for (std::size_t i = 0; i < b.size; ++i) ASSERT_EQ(b.ptr[i], std::byte{0x5a}) << "byte " << i << " of " << b.size;
  });
}

/// The kernel of this machine may have small pages: what is asked of it must be right where they are large.
TEST(LargePages, MarksGoWithWholePagesOfThem) {
  using H = Stack<Layers<SpanCache<>, PageIndex, BlockMarks<1>, MmapHeap<>>>;
  Stage<H> stage(1, false);
  ASSERT_TRUE(start_below(stage.heap(), facts_of_large_pages()));
  stage.as(0, [](H& h, auto& t) {
    const Block b = h.allocate(t, {.size = 4_MiB});
    ASSERT_TRUE(b);
    auto& marks = h.block_marks();
    constexpr std::size_t kCovers = kPage * kMinAlign;  // a page of marks is for so much
    for (std::size_t at = 0; at < b.size; at += kMinAlign) marks.template mark<0>(b.ptr + at) = 9;
    const std::size_t from = 64_KiB, to = 4_MiB - 64_KiB;
    ASSERT_TRUE(h.purge_pages(b.ptr + from, to - from));
    unsigned wiped = 0;
    for (std::size_t at = 0; at < b.size; at += kMinAlign) {
      const auto* const mark = &marks.template mark<0>(b.ptr + at);
      const std::uintptr_t page = round_down(reinterpret_cast<std::uintptr_t>(mark), kPage);
      const bool is_whole = page >= reinterpret_cast<std::uintptr_t>(&marks.template mark<0>(b.ptr + from)) &&
                            page + kPage <= reinterpret_cast<std::uintptr_t>(&marks.template mark<0>(b.ptr + to));
      ASSERT_EQ(*mark, is_whole ? 0 : 9) << "of byte " << at;
      wiped += is_whole;
    }
    EXPECT_GE(wiped * kMinAlign, 2 * kCovers);
  });
}

}  // namespace
}  // namespace mortise::test
