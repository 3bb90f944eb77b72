// If this failed, a sampled block could be misused without a word, or the word would name another block.
#include "mortise/guard/sampled_guards.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <optional>
#include <vector>

#include "mortise/allocators/hslab.hpp"
#include "mortise/guard/sealed_tail.hpp"
#include "mortise/guard/size_check.hpp"
#include "tests/support/stage.hpp"

namespace mortise::test {
namespace {

using Every = Stack<Layers<SampledGuards<1, 8, 0>>, HslabLayers>;

TEST(SampledGuards, EveryBlockEndsOrBeginsAtAPageThatForbids) {
  Stage<Every> stage;
  stage.as(0, [](Every& h, auto& t) {
    for (int i = 0; i < 40; ++i) {
      const Block b = h.allocate(t, {.size = 64});
      ASSERT_TRUE(b);
      ASSERT_EQ(b.size, 64u);
      const auto offset = address_of(b.ptr) % 4096;
      EXPECT_TRUE(offset == 0 || offset + 64 == 4096) << offset;
      std::memset(b.ptr, 1, 64);
      Crime crime{};
      EXPECT_TRUE(h.explain(offset ? b.ptr + 64 : b.ptr - 1, crime));
      EXPECT_EQ(crime.fault, Fault::out_of_bounds);
      EXPECT_EQ(crime.block.ptr, b.ptr);
      EXPECT_EQ(crime.block.size, 64u);
      EXPECT_NE(crime.allocated_at, nullptr);
      h.release(t, b);
      EXPECT_TRUE(h.explain(b.ptr, crime));
      EXPECT_EQ(crime.fault, Fault::use_after_free);
      EXPECT_NE(crime.freed_at, nullptr);
    }
  });
}

std::function<void()> on_crime;
void ask(const Crime&) noexcept { on_crime(); }
using Asking = Stack<Layers<SampledGuards<1, 8, 0, on_fault::CallBack<ask>>>, HslabLayers>;

/// What a fault calls, be it the program's handler of its end, may ask about blocks and release them.
TEST(SampledGuards, AFaultIsAnsweredWithoutTheLock) {
  Stage<Asking> stage;
  stage.as(0, [](Asking& h, auto& t) {
    const Block other = h.allocate(t, {.size = 50});
    unsigned asked = 0;
    on_crime = [&] { asked += h.measure({other.ptr, 0}).size == 50; };
    const Block b = h.allocate(t, {.size = 100});
    h.release(t, {b.ptr + 16, 0});
    b.ptr[100] = std::byte{1};
    h.release(t, b);
    h.release(t, b);
    EXPECT_EQ(asked, 3u);
    h.release(t, other);
    Crime crime{};
    EXPECT_TRUE(h.explain(b.ptr, crime));
    EXPECT_EQ(crime.fault, Fault::use_after_free);
  });
}

std::optional<Crime> told;
void note(const Crime& crime) noexcept { told = crime; }
using Noting = SampledGuards<1, 8, 0, on_fault::CallBack<note>>;
using Walked = Stack<Join<Layers<Noting, SizeCheck<>, SealedTail<>>, HslabOver<MmapHeap<>>>>;

/// One alone at its page's start lies on every alignment that there is.
TEST(SampledGuards, ADeleteNamesTheAlignmentThatWasAskedFor) {
  Stage<Walked> stage;
  stage.as(0, [](Walked& h, auto& t) {
    for (const std::size_t align : {16, 64, 256}) {
      const Block b = h.allocate(t, {.size = 100, .align = align});
      Crime crime{};
      ASSERT_TRUE(h.explain(b.ptr, crime)) << "a sampled one";
      told.reset();
      for (const std::size_t right : {std::size_t{1}, std::size_t{16}, align}) h.check_size(b.ptr, 100, right);
      EXPECT_FALSE(told) << align;
      h.check_size(b.ptr, 100, 2 * align);
      ASSERT_TRUE(told) << align;
      EXPECT_EQ(told->fault, Fault::align_mismatch);
      EXPECT_NE(told->seen_at, nullptr);
      h.check_size(b.ptr, 101, align);
      EXPECT_EQ(told->fault, Fault::size_mismatch);
      h.release(t, b);
    }
  });
}

TEST(SampledGuards, ACheckOfTheHeapLooksBehindThemToo) {
  Stage<Walked> stage;
  stage.as(0, [](Walked& h, auto& t) {
    std::vector<Block> held;
    for (int i = 0; i < 8; ++i) held.push_back(h.allocate(t, {.size = 100}));
    told.reset();
    EXPECT_EQ(h.check_all(t), 0u);
    EXPECT_FALSE(told);
    for (const Block b : held)
      if (address_of(b.ptr + 100) % 4096) b.ptr[100] ^= std::byte{1};  // where there is a byte to write at all
    EXPECT_EQ(h.check_all(t), held.size());
    EXPECT_EQ(told->fault, Fault::tail_overwritten);
    EXPECT_EQ(told->block.size, 100u);
    for (const Block b : held) h.release(t, b);
  });
}

/// More than half a page behind the end, where the next slot has had no block yet.
TEST(SampledGuards, AnAccessFarBehindABlockIsExplainedByTheOneThatThereIs) {
  Stage<Every> stage;
  stage.as(0, [](Every& h, auto& t) {
    const Block b = h.allocate(t, {.size = 4096});
    for (const std::size_t beyond : {0, 2000, 3000, 4095}) {
      Crime crime{};
      ASSERT_TRUE(h.explain(b.ptr + 4096 + beyond, crime)) << beyond;
      EXPECT_EQ(crime.fault, Fault::out_of_bounds);
      EXPECT_EQ(crime.block.ptr, b.ptr);
    }
    h.release(t, b);
  });
}

TEST(SampledGuards, MisuseEndsTheProgram) {
  Stage<Every> stage;
  stage.as(0, [](Every& h, auto& t) {
    const Block b = h.allocate(t, {.size = 100});
    EXPECT_DEATH(h.release(t, {b.ptr + 16, 0}), "fault=invalid_free");
    EXPECT_DEATH((b.ptr[100] = std::byte{1}, h.release(t, b)), "fault=tail_overwritten|");
    h.release(t, b);
    EXPECT_DEATH(h.release(t, b), "fault=double_free");
    EXPECT_DEATH(*static_cast<volatile std::byte*>(b.ptr) = std::byte{1}, "");
    EXPECT_DEATH(static_cast<void>(*static_cast<volatile std::byte*>(b.ptr)), "");
  });
}

/// The slots lie in memory that the heap below may have handed out before.
TEST(SampledGuards, AZeroedRequestIsZeroWhoseverTheMemoryWas) {
  Stage<Every> stage;
  stage.as(0, [](Every& h, auto& t) {
    const Block used = h.below.allocate(t.below, {.size = 1_MiB});
    std::memset(used.ptr, 1, used.size);
    h.below.release(t.below, used);
    for (int i = 0; i < 8; ++i) {
      const Block b = h.allocate(t, {.size = 200, .zeroed = true});
      ASSERT_TRUE(b);
      for (unsigned k = 0; k < 200; ++k) ASSERT_EQ(b.ptr[k], std::byte{0}) << "byte " << k << " of block " << i;
    }
  });
}

TEST(SampledGuards, WhatDoesNotFitIsServedByTheHeapBelow) {
  Stage<Every> stage;
  stage.as(0, [](Every& h, auto& t) {
    const Block large = h.allocate(t, {.size = 5000});
    ASSERT_TRUE(large);
    h.release(t, large);
    Block blocks[9];
    for (Block& b : blocks) ASSERT_TRUE(b = h.allocate(t, {.size = 100}));  // one more than there are slots
    for (const Block b : blocks) h.release(t, b);
  });
}

/// A sample costs as much as a thousand allocations: who allocates fast must not pay for all that are drawn.
TEST(SampledGuards, AThreadRestsAfterASample) {
  Stage<Stack<Layers<SampledGuards<1, 8, 1000000>>, HslabLayers>> stage;
  stage.as(0, [](auto& h, auto& t) {
    Crime crime{};
    const Block guarded = h.allocate(t, {.size = 64});
    ASSERT_TRUE(guarded);
    EXPECT_TRUE(h.explain(guarded.ptr, crime));
    for (int i = 0; i < 20; ++i) {
      const Block b = h.allocate(t, {.size = 64});
      ASSERT_TRUE(b);
      EXPECT_FALSE(h.explain(b.ptr, crime));
      h.release(t, b);
    }
    h.release(t, guarded);
  });
}

/// Two slots fit into a size class of hslab: their pointers would have that class, and go into its magazines.
TEST(SampledGuards, FewSlotsLieInALargeBlockTooAndHaveNoClass) {
  using Few = Stack<Layers<SampledGuards<1, 2, 0>>, HslabLayers>;
  Stage<Few> stage;
  stage.as(0, [](Few& h, auto& t) {
    for (int i = 0; i < 10; ++i) {
      const Block b = h.allocate(t, {.size = 100});
      ASSERT_TRUE(b);
      EXPECT_EQ(h.block_of(b.ptr).size_class, b.size_class) << i;
      h.release(t, h.block_of(b.ptr));
    }
  });
}

}  // namespace
}  // namespace mortise::test
