// If this failed, a sampled block could be misused without a word, or the word would name another block.
#include "mortise/guard/sampled_guards.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "mortise/allocators/hslab.hpp"
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
