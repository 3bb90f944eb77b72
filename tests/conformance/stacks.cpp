// Every stack is driven through everything it offers, over a source that checks each call it receives. If this failed, a program
// would get memory that is too small, misaligned, in use elsewhere or not zero - or lose memory when the system has none.
#include "tests/support/stacks.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

#include "tests/support/bytes.hpp"
#include "tests/support/stage.hpp"

#ifndef MORTISE_TEST_STACKS  // guards.cpp has its own
#define MORTISE_TEST_STACKS Stacks
#endif

namespace mortise::test {
namespace {

template <class E> class Conformance : public ::testing::Test {
 public:
  using Heap = Stack<Recorded<typename E::List>>;
  static constexpr Traits kTraits = E::kTraits;
  static constexpr std::size_t kSizes[] = {0,    1,     8,     16,    17,     24,      100,     128,     129,       1000,
                                           4096, 4097, 16384, 16385, 32768, 32769, 65536, 262144, 262145, 1'000'000};


  /// Requests that the stack cannot serve by its facts get an empty block; all others must be served.
  static bool must_serve(std::size_t size) {
    if constexpr (Classed<Heap>) {
      static const bool beyond = [] {  // does anybody take what has no class?
        Stage<Heap> stage;
        return stage.as(0, [](Heap& h, auto& t) {
          const Block b = h.allocate(t, {.size = Heap::Classes::kMaxBytes + 1});
          if (b) h.release(t, b);
          return static_cast<bool>(b);
        });
      }();
      if (size > Heap::Classes::kMaxBytes) return beyond;
    }
    return size < kTraits.room_bytes / 4;
  }
};
TYPED_TEST_SUITE(Conformance, MORTISE_TEST_STACKS, EntryNames);

/// Fills a block and can tell later whether it is as it was filled.
void fill(Block b) { std::memset(b.ptr, static_cast<int>(address_of(b.ptr) >> 4 & 0xff) | 1, b.size); }
bool is_filled(Block b) {
  const auto value = static_cast<std::byte>((address_of(b.ptr) >> 4 & 0xff) | 1);
  return all_bytes_are(value, b.ptr, b.size);
}

TYPED_TEST(Conformance, GivesBlocksOfAnySize) {
  using H = typename TestFixture::Heap;
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    std::vector<Block> blocks;
    for (const std::size_t size : TestFixture::kSizes) {
      for (int i = 0; i < 3; ++i) {
        const Block b = h.allocate(t, {.size = size});
        EXPECT_EQ(static_cast<bool>(b), TestFixture::must_serve(size)) << size;
        if (!b) continue;
        EXPECT_GE(b.size, std::max<std::size_t>(size, 1));
        EXPECT_TRUE(is_aligned(b.ptr, kMinAlign));
        fill(b);
        blocks.push_back(b);
      }
    }
    for (const Block b : blocks) EXPECT_TRUE(is_filled(b)) << "two blocks overlap";
    for (const Block b : blocks) h.release(t, b);
  });
}

TYPED_TEST(Conformance, ServesEveryClassExactly) {
  using H = typename TestFixture::Heap;
  if constexpr (Classed<H>) {
    using Classes = typename H::Classes;
    Stage<H> stage;
    stage.as(0, [](H& h, auto& t) {
      for (unsigned c = 1; c <= Classes::kCount; ++c) {
        if (Classes::size_of(c) == 0) continue;  // all of it is a layer's own
        if (plain_class<Classes>(c) != c) continue;  // a request never names a colour
        EXPECT_EQ(Classes::class_of(Classes::size_of(c)), c);
        EXPECT_EQ(Classes::class_of(Classes::size_of(c - 1) + 1), c);
        const Block b = h.allocate(t, {.size = Classes::size_of(c)});
        ASSERT_EQ(b.size, Classes::size_of(c));
        EXPECT_EQ(plain_class<Classes>(b.class_index()), c);
        h.release(t, b);
      }
    });
  }
}

TYPED_TEST(Conformance, HonoursAlignmentOrSaysNo) {
  using H = typename TestFixture::Heap;
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    for (std::size_t align = 1; align <= 4_MiB; align *= 2) {
      for (const std::size_t size : {std::size_t{1}, std::size_t{100}, std::size_t{5000}, std::size_t{100'000}}) {
        const Block b = h.allocate(t, {.size = size, .align = align});
        const bool must = align <= TestFixture::kTraits.align_max && TestFixture::must_serve(size);
        EXPECT_TRUE(b || !must) << size << '@' << align;
        if (!b) continue;
        EXPECT_TRUE(is_aligned(b.ptr, align)) << size << '@' << align;
        EXPECT_GE(b.size, size);
        fill(b);
        h.release(t, b);
      }
    }
  });
}

TYPED_TEST(Conformance, ZeroedMemoryReadsAsZero) {
  using H = typename TestFixture::Heap;
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    for (int round = 0; round < 3; ++round) {
      for (const std::size_t size : TestFixture::kSizes) {
        const Block b = h.allocate(t, {.size = size, .zeroed = true});
        if (!b) continue;
        ASSERT_TRUE(all_bytes_are(std::byte{0}, b.ptr, size)) << size;
        fill(b);
        h.release(t, b);
      }
      if constexpr (Trims<H>) if (round) h.trim(t);
    }
  });
}

TYPED_TEST(Conformance, SaysNoToWhatCannotBe) {
  using H = typename TestFixture::Heap;
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    for (const std::size_t size : {SIZE_MAX, SIZE_MAX - 15, SIZE_MAX / 2, std::size_t{PTRDIFF_MAX}, std::size_t{1} << 60}) {
      EXPECT_FALSE(h.allocate(t, {.size = size})) << size;
      EXPECT_FALSE(h.allocate(t, {.size = size, .align = 4096})) << size;
    }
    EXPECT_FALSE(h.allocate(t, {.size = 64, .align = std::size_t{1} << 62}));
    const Block b = h.allocate(t, {.size = 64});
    EXPECT_TRUE(b) << "usable afterwards";
    h.release(t, b);
  });
}

TYPED_TEST(Conformance, FindsBlocksByPointer) {
  using H = typename TestFixture::Heap;
  if constexpr (Locates<H>) {
    Stage<H> stage;
    stage.as(0, [](H& h, auto& t) {
      std::byte elsewhere[64] = {};
      EXPECT_FALSE(h.holds(elsewhere + 16));
      EXPECT_FALSE(h.holds(nullptr));
      std::vector<Block> blocks;
      for (const std::size_t size : TestFixture::kSizes)
        if (const Block b = h.allocate(t, {.size = size})) blocks.push_back(b);
      for (const Block b : blocks) {
        EXPECT_TRUE(h.holds(b.ptr));
        const Block found = h.block_of(b.ptr);
        EXPECT_EQ(found.ptr, b.ptr);
        EXPECT_EQ(found.class_index(), b.class_index());
        EXPECT_EQ(h.measure(found).size, b.size);
      }
      for (const Block b : blocks) {
        Block found = h.block_of(b.ptr);
        if (found.size_class == kNoClass) found = h.measure(found);
        h.release(t, found);
      }
    });
  }
}

TYPED_TEST(Conformance, ServesBatches) {
  using H = typename TestFixture::Heap;
  if constexpr (Batches<H> && Classed<H>) {
    Stage<H> stage;
    stage.as(0, [](H& h, auto& t) {
      for (unsigned c = 1; c <= H::Classes::kCount; c += 3) {
        std::set<std::byte*> seen;
        std::byte* batch[40];
        for (int round = 0; round < 3; ++round) {
          const unsigned got = h.allocate_batch(t, c, batch, 40);
          ASSERT_GT(got, 0u);
          seen.clear();
          for (unsigned i = 0; i < got; ++i) {
            EXPECT_TRUE(seen.insert(batch[i]).second) << "a block was given twice";
            std::memset(batch[i], 0x5a, H::Classes::size_of(c));
          }
          h.release_batch(t, c, batch, got / 2);
          h.release_batch(t, c, batch + got / 2, got - got / 2);
        }
      }
    });
  }
}

TYPED_TEST(Conformance, HitsAreServedFromTheTop) {
  using H = typename TestFixture::Heap;
  if constexpr (Hits<H>) {
    Stage<H> stage;
    stage.as(0, [](H& h, auto& t) {
      EXPECT_FALSE(h.allocate_hit(t, {.size = 24})) << "an empty cache cannot hit";
      h.release(t, h.allocate(t, {.size = 24}));
      if (!TestFixture::kTraits.hits) {
        EXPECT_FALSE(h.allocate_hit(t, {.size = 24})) << "a call that nobody counts, or a block that must wait";
        return;
      }
      Block b = h.allocate_hit(t, {.size = 24, .zeroed = true});
      for (unsigned tries = 1; !b && tries < TestFixture::kTraits.hit_tries; ++tries) {
        h.release(t, h.allocate(t, {.size = 24}));
        b = h.allocate_hit(t, {.size = 24, .zeroed = true});
      }
      ASSERT_TRUE(b);
      EXPECT_EQ(b.ptr[0], std::byte{0});
      EXPECT_GE(b.size, 24u);
      EXPECT_TRUE(hit_below(h, t, b.ptr)) << "as free() gives it back: the block says where it belongs";
      EXPECT_FALSE(h.allocate_hit(t, {.size = 24, .align = 4096})) << "not without looking at the alignment";
      EXPECT_FALSE(h.allocate_hit(t, {.size = SIZE_MAX}));
    });
  }
}

TYPED_TEST(Conformance, ResizesInPlaceWithoutLosingBytes) {
  using H = typename TestFixture::Heap;
  if constexpr (Resizes<H>) {
    Stage<H> stage;
    stage.as(0, [](H& h, auto& t) {
      for (const std::size_t size : TestFixture::kSizes) {
        Block b = h.allocate(t, {.size = size});
        if (!b) continue;
        for (const std::size_t next : {size + 1, size / 2, size * 2, size * 3 / 4, std::size_t{1}}) {
          const std::size_t kept = std::min(b.size, next);
          std::memset(b.ptr, 0x77, kept);
          const Block resized = h.resize_in_place(t, b, next);
          if (!resized) continue;
          EXPECT_EQ(resized.ptr, b.ptr);
          EXPECT_GE(resized.size, next);
          for (std::size_t i = 0; i < std::min(kept, static_cast<std::size_t>(resized.size)); ++i)
            ASSERT_EQ(resized.ptr[i], std::byte{0x77});
          b = resized;
          fill(b);
        }
        EXPECT_FALSE(h.resize_in_place(t, b, SIZE_MAX / 2));
        h.release(t, b);
      }
    });
  }
}

TYPED_TEST(Conformance, MovesPagesWithTheirBytes) {
  using H = typename TestFixture::Heap;
  if constexpr (Moves<H>) {
    Stage<H> stage;
    stage.as(0, [](H& h, auto& t) {
      Block b = h.allocate(t, {.size = 300'000});
      if (!b) return;
      fill(b);
      const auto value = b.ptr[0];
      const std::size_t bytes = b.size;
      const Block moved = h.resize_by_moving(t, b, 2'000'000);
      ASSERT_TRUE(moved);
      EXPECT_GE(moved.size, 2'000'000u);
      ASSERT_TRUE(all_bytes_are(value, moved.ptr, bytes));
      fill(moved);
      h.release(t, moved);
      // What was left behind is used again, and reads as zero when asked to.
      const Block again = h.allocate(t, {.size = 300'000, .zeroed = true});
      ASSERT_TRUE(all_bytes_are(std::byte{0}, again.ptr, 300'000));
      h.release(t, again);
    });
  }
}

/// Nothing is lost: what was taken from the source is in live blocks, in caches or in free spans.
template <class H> void expect_adds_up(H& h, std::size_t live_bytes, Traits traits) {
  if constexpr (Tells<H>) {
    Usage u;
    h.tell(u);
    EXPECT_TRUE(!traits.is_exact || u.live == live_bytes) << u.live << " live bytes instead of " << live_bytes;
    if constexpr (Purges<H>) {
      EXPECT_EQ(u.mapped, u.live + u.cached + u.dirty + u.purged);
      if (traits.maps_through_source) {
        EXPECT_EQ(u.mapped, recording_of(h).held_bytes());
      }
    }
  }
}

TYPED_TEST(Conformance, TellsWhatItHolds) {
  using H = typename TestFixture::Heap;
  Stage<H> stage(2);
  std::vector<Block> blocks;
  std::size_t live = 0;
  stage.as(0, [&](H& h, auto& t) {
    if constexpr (Purges<H>) expect_adds_up(h, 0, TestFixture::kTraits);
    for (const std::size_t size : TestFixture::kSizes)
      if (const Block b = h.allocate(t, {.size = size})) {
        blocks.push_back(b);
        live += b.size;
      }
    if constexpr (Purges<H>) expect_adds_up(h, live, TestFixture::kTraits);
  });
  stage.as(1, [&](H& h, auto& t) {  // another thread releases them
    for (const Block b : blocks) h.release(t, b);
    if constexpr (Purges<H>) expect_adds_up(h, 0, TestFixture::kTraits);
    if constexpr (Trims<H>) h.trim(t);
    if constexpr (Purges<H>) expect_adds_up(h, 0, TestFixture::kTraits);
  });
}

TYPED_TEST(Conformance, ThreadsThatEndLeaveNothingBehind) {
  using H = typename TestFixture::Heap;
  Stage<H> stage(3);
  for (int round = 0; round < 4; ++round) {
    for (unsigned i = 0; i < 3; ++i) {
      stage.as(i, [](H& h, auto& t) {
        std::vector<Block> blocks;
        for (int n = 0; n < 100; ++n) blocks.push_back(h.allocate(t, {.size = 48}));
        for (const Block b : blocks) h.release(t, b);
      });
    }
    for (unsigned i = 0; i < 3; ++i) stage.detach(i);
    if constexpr (Tells<H> && Attaches<H> && Classed<H>) {
      Usage u;
      stage.heap().tell(u);
      EXPECT_EQ(u.live, 0u);
    }
    for (unsigned i = 0; i < 3; ++i) stage.attach(i);
  }
}

TYPED_TEST(Conformance, HoldsStillForAForkAndGoesOnAfterwards) {
  using H = typename TestFixture::Heap;
  if constexpr (HoldsLocks<H>) {
    Stage<H> stage;
    stage.as(0, [](H& h, auto& t) {
      const Block before = h.allocate(t, {.size = 40});
      h.lock_all();
      h.unlock_all();
      const Block between = h.allocate(t, {.size = 40});
      h.lock_all();
      h.reset_after_fork();
      EXPECT_TRUE(between);
      h.release(t, before);
      h.release(t, between);
      EXPECT_TRUE(start_below(h, own_facts())) << "starting again is harmless";
    });
  }
}

/// A bit of everything; what cannot be had is left out. Returns what is held at the end.
template <class H> std::vector<Block> bit_of_everything(H& h, typename H::Thread& t) {
  std::vector<Block> blocks;
  const auto keep = [&](Block b) {
    if (b) {
      std::memset(b.ptr, 0xa5, b.size < 4096 ? b.size : 4096);
      blocks.push_back(b);
    }
  };
  for (int round = 0; round < 3; ++round) {
    for (std::size_t size = 8; size <= 64_KiB; size = size * 2 + 8)
      for (int i = 0; i < 12; ++i) keep(h.allocate(t, {.size = size}));
    for (const std::size_t size : {300_KiB, 700_KiB, std::size_t{1_MiB}}) keep(h.allocate(t, {.size = size, .align = 4096}));
    for (std::size_t i = 0; i < blocks.size(); i += 3) {
      h.release(t, blocks[i]);
      blocks[i] = blocks.back();
      blocks.pop_back();
    }
    if constexpr (Resizes<H>) {
      if (!blocks.empty())
        if (const Block b = h.resize_in_place(t, blocks.back(), blocks.back().size + 100'000)) blocks.back() = b;
    }
    if constexpr (Moves<H>) {
      if (!blocks.empty() && blocks.back().size_class == kNoClass)
        if (const Block b = h.resize_by_moving(t, blocks.back(), blocks.back().size + 1_MiB)) blocks.back() = b;
    }
  }
  return blocks;
}

TYPED_TEST(Conformance, SurvivesEveryRequestToTheSourceFailing) {
  using H = typename TestFixture::Heap;
  for (std::size_t n = 1;; ++n) {
    Stage<H> stage(1, false);
    auto& recording = recording_of(stage.heap());
    recording.fail_at = n;
    const bool started = stage.start();
    if (!started) {
      ASSERT_TRUE(stage.start()) << "a start that failed for want of memory can be repeated";
    }
    stage.attach(0);
    std::vector<Block> blocks = stage.as(0, [](H& h, auto& t) { return bit_of_everything(h, t); });
    const bool failed = recording.requests >= n;
    recording.fail_at = 0;
    std::size_t live = 0;
    for (const Block b : blocks) live += b.size;
    stage.as(0, [&](H& h, auto& t) {
      if constexpr (Purges<H>) expect_adds_up(h, live, TestFixture::kTraits);
      if constexpr (Audits<H>) h.audit();
      for (const Block b : blocks) h.release(t, b);
      if constexpr (Purges<H>) expect_adds_up(h, 0, TestFixture::kTraits);
      const Block b = h.allocate(t, {.size = 100});
      EXPECT_TRUE(b) << "usable after request " << n << " failed";
      if (b) h.release(t, b);
      if constexpr (Trims<H>) h.trim(t);
    });
    stage.detach(0);
    if (!failed) break;
    ASSERT_LT(n, 5000u) << "requests to the source never end";
  }
}

}  // namespace
}  // namespace mortise::test
