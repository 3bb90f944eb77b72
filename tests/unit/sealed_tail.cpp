// If this failed, a write past the end of a block, or a second release, would go unnoticed on hslab_hardened.
#include "mortise/guard/sealed_tail.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <vector>

#include "mortise/allocators/hslab.hpp"
#include "mortise/guard/guard_pages.hpp"
#include "mortise/guard/sampled_guards.hpp"
#include "mortise/watch/sampled.hpp"
#include "tests/support/stage.hpp"

namespace mortise::test {
namespace {

std::optional<Fault> told;
unsigned times = 0;
void note(const Crime& crime) noexcept {
  told = crime.fault;
  ++times;
}
template <class... Guard> using OverHslab = Stack<Join<Layers<Guard...>, HslabOver<MmapHeap<>>>>;
using Noting = OverHslab<SealedTail<on_fault::CallBack<note>>>;
using Abiding = OverHslab<SealedTail<>>;

template <class H> bool is_told(H& h, std::byte* p, Fault fault) {
  told.reset();
  h.measure(h.block_of(p));
  return told == fault;
}
template <class H> Block take(H& h, typename H::Thread& t, std::size_t n, bool hits) {
  if (hits)
    if (const Block b = h.allocate_hit(t, {.size = n})) return b;
  return h.allocate(t, {.size = n});
}
template <class H> void give(H& h, typename H::Thread& t, std::byte* p, bool hits) {
  const Block b = h.block_of(p);
  if (hits && h.release_hit(t, b)) return;
  h.release(t, b);
}

/// The first 8 bytes and the last 8; all sizes up to where gaps are longer than the table, as hits and as misses.
TEST(SealedTail, EveryByteBehindEverySizeIsWatched) {
  Stage<Noting> stage;
  stage.as(0, [](Noting& h, auto& t) {
    for (std::size_t n = 1; n <= 6000; n += n < 300 ? 1 : 37) {
      for (const bool hits : {false, true}) {
        const Block b = take(h, t, n, hits);
        ASSERT_EQ(b.size, n);
        EXPECT_NE(b.ptr[n], std::byte{0}) << "the end of a string would not be seen behind " << n;
        const std::size_t end = h.below.measure({b.ptr, 0, b.class_index()}).size;
        for (std::size_t at = n; at < end; at = at == n + 7 && at < end - 8 ? end - 8 : at + 1) {
          for (unsigned change = 1; change < 256; change += n < 100 ? 1 : 17) {
            b.ptr[at] ^= static_cast<std::byte>(change);
            EXPECT_TRUE(is_told(h, b.ptr, Fault::tail_overwritten)) << "byte " << at << " of a block of " << n << ", " << change;
            EXPECT_FALSE(h.release_hit(t, h.block_of(b.ptr)));
            b.ptr[at] ^= static_cast<std::byte>(change);
          }
        }
        told.reset();
        EXPECT_EQ(h.measure(h.block_of(b.ptr)).size, n);
        EXPECT_TRUE(h.has_size(h.block_of(b.ptr), n));
        EXPECT_FALSE(h.has_size(h.block_of(b.ptr), n + 1));
        give(h, t, b.ptr, hits);
        EXPECT_FALSE(told) << n;
        EXPECT_FALSE(h.release_hit(t, h.block_of(b.ptr)));
        give(h, t, b.ptr, hits);
        EXPECT_EQ(told, Fault::double_free) << n;
      }
    }
  });
}

TEST(SealedTail, OnlyWhatIsHeldIsReleased) {
  Stage<Noting> stage;
  stage.as(0, [](Noting& h, auto& t) {
    for (const std::size_t n : {100, 3000, 1 << 20}) {
      const Block b = h.allocate(t, {.size = n});
      for (const std::size_t inside : {1, 8, 16, 48}) {
        EXPECT_FALSE(h.release_hit(t, h.block_of(b.ptr + inside)));
        told.reset();
        h.release(t, h.block_of(b.ptr + inside));
        EXPECT_EQ(told, Fault::invalid_free) << n << ' ' << inside;
      }
      told.reset();
      h.release(t, h.block_of(b.ptr));
      EXPECT_FALSE(told);
      h.release(t, h.block_of(b.ptr));
      EXPECT_TRUE(told == Fault::double_free || (n > 1 << 18 && told == Fault::invalid_free)) << n;
    }
  });
}

TEST(SealedTail, ADeleteThatNamesAnotherSizeIsNoHit) {
  Stage<Noting> stage;
  stage.as(0, [](Noting& h, auto& t) {
    for (std::size_t n = 1; n <= 1000; n += 3) {
      const Block b = h.allocate(t, {.size = n});
      for (const std::size_t other : {n - 1, n + 1, n + 8, n + 16, std::size_t{0}, std::size_t{1} << 40})
        EXPECT_FALSE(h.release_hit_of_size(t, h.block_of(b.ptr), other)) << n << ' ' << other;
      EXPECT_FALSE(h.release_hit_of_size(t, h.block_of(b.ptr + 8), n));
      EXPECT_TRUE(h.release_hit_of_size(t, h.block_of(b.ptr), n)) << n;
      for (std::size_t other = 0; other < n + 32; ++other) EXPECT_FALSE(h.release_hit_of_size(t, h.block_of(b.ptr), other)) << n;
    }
  });
}

TEST(SealedTail, ABlockThatIsResizedTakesItsTailAlong) {
  Stage<Noting> stage;
  stage.as(0, [](Noting& h, auto& t) {
    told.reset();
    for (const std::size_t from : {97, 300, 4200, 300 << 10}) {
      Block b = h.allocate(t, {.size = from});
      for (std::size_t n = from; n > from / 2; n -= 1 + from / 20) {
        const Block smaller = h.resize_in_place(t, h.measure(h.block_of(b.ptr)), n);
        if (!smaller) break;
        b = smaller;
        ASSERT_EQ(b.size, n);
        EXPECT_EQ(h.measure(h.block_of(b.ptr)).size, n);
        b.ptr[n] ^= std::byte{1};
        EXPECT_TRUE(is_told(h, b.ptr, Fault::tail_overwritten)) << n;
        b.ptr[n] ^= std::byte{1};
        told.reset();
      }
      h.release(t, h.block_of(b.ptr));
      EXPECT_FALSE(told) << from;
    }
  });
}

/// Within the class of every size: at once, with the tail behind the new end; never for what is not held, or not whole.
TEST(SealedTail, AResizeWithinAClassIsAHit) {
  Stage<Noting> stage;
  stage.as(0, [](Noting& h, auto& t) {
    told.reset();
    for (std::size_t n = 2; n <= 1500; n += n < 70 ? 1 : 23) {
      const Block b = h.allocate(t, {.size = n});
      const Block found = h.block_of(b.ptr);
      const std::size_t end = h.below.measure({b.ptr, 0, b.class_index()}).size;
      for (const std::size_t other : {end - 8, n + (end - 8 - n) / 2, n}) {
        ASSERT_TRUE(h.resize_hit(found, other)) << n << " to " << other;
        EXPECT_EQ(h.measure(found).size, other);
        for (const std::size_t at : {other, other + 7, end - 1}) {
          b.ptr[at] ^= std::byte{0x80};
          EXPECT_FALSE(h.resize_hit(found, n));
          EXPECT_TRUE(is_told(h, b.ptr, Fault::tail_overwritten)) << "byte " << at << " of a block of " << other;
          b.ptr[at] ^= std::byte{0x80};
        }
      }
      for (const std::size_t wrong : {end - 7, end, end + 1, std::size_t{0}, SIZE_MAX, SIZE_MAX - 8})
        EXPECT_FALSE(h.resize_hit(found, wrong));
      EXPECT_FALSE(h.resize_hit(h.block_of(b.ptr + 8), n)) << "inside";
      told.reset();
      h.release(t, h.block_of(b.ptr));
      EXPECT_FALSE(h.resize_hit(found, n)) << "after its release";
    }
    const Block large = h.allocate(t, {.size = 1_MiB});
    EXPECT_FALSE(h.resize_hit(h.block_of(large.ptr), 1_MiB)) << "it has no class";
    h.release(t, h.block_of(large.ptr));
    EXPECT_FALSE(told);
  });
}

TEST(SealedTail, AWalkFindsWhatNobodyHasReleasedYet) {
  Stage<Noting> stage;
  stage.as(0, [](Noting& h, auto& t) {
    Block blocks[50];
    for (std::size_t i = 0; i < 50; ++i) blocks[i] = h.allocate(t, {.size = 140 * (i + 1)});
    const Block large = h.allocate(t, {.size = 1_MiB});
    for (std::size_t i = 0; i < 50; i += 2) h.release(t, h.block_of(blocks[i].ptr));
    times = 0;
    EXPECT_EQ(h.check_all(t), 0u);
    blocks[7].ptr[blocks[7].size] ^= std::byte{1};
    large.ptr[large.size] ^= std::byte{1};
    EXPECT_EQ(h.check_all(t), 2u);
    EXPECT_EQ(times, 2u);
  });
}

/// What a cache holds that nobody can empty was perhaps never given out, and its last words say anything.
TEST(SealedTail, AWalkAccusesNothingThatRestsInACache) {
  Stage<Noting> stage(2);
  Block held;
  stage.as(1, [&held](Noting& h, auto& t) {
    std::vector<Block> blocks;
    for (int i = 0; i < 2000; ++i) blocks.push_back(h.allocate(t, {.size = 100}));
    for (const Block& b : blocks) {
      std::memset(b.ptr, 0x5A, b.size);
      give(h, t, b.ptr, false);
    }
    h.trim(t);  // the memory comes back as blocks of another size
    for (std::size_t n = 16; n <= 1024; n += 16) held = h.allocate(t, {.size = n - 8});
  });
  told.reset();
  stage.as(0, [&held](Noting& h, auto& t) {
    EXPECT_EQ(h.check_all(t), 0u);
    EXPECT_FALSE(told);
    held.ptr[held.size] ^= std::byte{1};
    EXPECT_EQ(h.check_all(t), 1u) << "this one was";
    held.ptr[held.size] ^= std::byte{1};
  });
}

/// A thread of the parent had just got it, and is not here to go on.
TEST(SealedTail, AWalkAfterAForkAccusesNoBlockWithoutASeal) {
  Stage<Noting> stage;
  stage.as(0, [](Noting& h, auto& t) {
    const Block amid = h.below.allocate(t, {.size = 1_MiB}), b = h.allocate(t, {.size = 2_MiB});
    std::memset(amid.ptr, 0x5A, amid.size);
    h.reset_after_fork();
    EXPECT_EQ(h.check_all(t), 0u);
    b.ptr[b.size] ^= std::byte{1};
    EXPECT_EQ(h.check_all(t), 1u);
  });
}

/// Pages inside free blocks are given to the system, which gives them back without the word that says so.
TEST(SealedTail, ABlockWhosePagesArePurgedIsReleasedStill) {
  Stage<Noting> stage;
  stage.as(0, [](Noting& h, auto& t) {
    const Block before = h.allocate(t, {.size = 16000}), b = h.allocate(t, {.size = 16000}), behind = h.allocate(t, {.size = 16000});
    give(h, t, b.ptr, false);
    h.trim(t);
    std::memset(b.ptr, 0, 16008);
    EXPECT_FALSE(h.release_hit(t, h.block_of(b.ptr)));
    h.release(t, h.block_of(b.ptr));
    EXPECT_EQ(told, Fault::double_free);
    give(h, t, before.ptr, false);
    give(h, t, behind.ptr, false);
  });
}

TEST(SealedTail, TheInsideOfALargeBlockWasNeverReleased) {
  Stage<Noting> stage;
  stage.as(0, [](Noting& h, auto& t) {
    const Block small = h.allocate(t, {.size = 100}), b = h.allocate(t, {.size = 1_MiB});
    for (std::size_t at = 16; at < b.size; at += at < 4096 ? 16 : 4096) {
      told.reset();
      h.release(t, h.block_of(b.ptr + at));
      EXPECT_EQ(told, Fault::invalid_free) << at;
    }
    give(h, t, b.ptr, false);
    give(h, t, small.ptr, false);
  });
}

/// A resize moves the end, and the old place may be another block's next.
TEST(SealedTail, WhereABlockEndsNoMoreIsNoSeal) {
  Stage<Noting> stage;
  stage.as(0, [](Noting& h, auto& t) {
    const Block b = h.allocate(t, {.size = 1_MiB});
    const std::byte* const at = h.below.measure(h.below.block_of(b.ptr)).end() - 8;
    std::byte seal[8];
    std::memcpy(seal, at, 8);
    const Block less = h.resize_in_place(t, h.block_of(b.ptr), 700_KiB);
    ASSERT_TRUE(less);
    EXPECT_NE(std::memcmp(seal, at, 8), 0);
    give(h, t, b.ptr, false);
  });
}

/// A pointer into a wall, and a canary copied over the seal of the last block before one: each would make free read where nobody may.
TEST(SealedTail, AWallIsNotRead) {
  using Walled = Stack<Layers<SealedTail<on_fault::CallBack<note>>, Aligned, CoreCache<>,
                              Bypass<LargerThan<256_KiB>, Slab<>, GuardPages<16, false>>,
                              SpanCache<>, PageIndex, MmapHeap<>>>;
  Stage<Walled> stage;
  stage.as(0, [](Walled& h, auto& t) {
    bool is_last = false;
    for (int i = 0; i < 1000 && !is_last; ++i) {
      const Block b = h.allocate(t, {.size = 1000});
      const Block outer = h.below.measure(h.below.block_of(b.ptr));
      const auto& index = h.page_index();
      std::byte* const wall = index.base_of(index.span_of(b.ptr)) + round_down(index.used_bytes_of(index.span_of(b.ptr)), 64_KiB);
      is_last = outer.end() == wall;
      if (!is_last) continue;
      for (std::size_t at = 0; at < 64_KiB; at += 1024) {
        told.reset();
        EXPECT_EQ(h.release_at(t, wall + at), Tried::refused);
        h.release(t, h.block_of(wall + at));
        EXPECT_EQ(told, Fault::invalid_free) << at;
      }
      std::memcpy(wall - 8, b.ptr + b.size, 8);
      told.reset();
      EXPECT_EQ(h.release_at(t, b.ptr), Tried::refused);
      h.release(t, h.block_of(b.ptr));
      EXPECT_EQ(told, Fault::tail_overwritten);
    }
    EXPECT_TRUE(is_last);
  });
}

TEST(SealedTail, TheProgramEndsUnlessItsPolicyGoesOn) {
  Stage<Abiding> stage;
  stage.as(0, [](Abiding& h, auto& t) {
    const Block b = h.allocate(t, {.size = 100});
    b.ptr[100] = std::byte{0};
    EXPECT_DEATH(h.release(t, h.block_of(b.ptr)), "fault=tail_overwritten");
    EXPECT_DEATH(h.release(t, h.block_of(b.ptr + 16)), "fault=invalid_free");
  });
}

/// A sampled block has no class, and lies in a span of another: its size is not what the span's is.
TEST(SealedTail, StandsBelowWhatPutsBlocksIntoSpansOfAnother) {
  static_assert(!FitsOn<SealedTail<>, OverHslab<SampledGuards<>>> && FitsOn<SampledGuards<>, OverHslab<SealedTail<>>>);
  static_assert(!FitsOn<SealedTail<>, OverHslab<Sampled<>>> && FitsOn<Sampled<>, OverHslab<SealedTail<>>>);
}

}  // namespace
}  // namespace mortise::test
