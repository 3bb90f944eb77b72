// If this failed, a child forked while its parent emptied caches would run without caches for ever, a signal handler during
// malloc_trim would get a block twice, or aligned requests would be served with unaligned blocks.
#include "mortise/cache/core_cache.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <random>
#include <utility>
#include <vector>

#include "mortise/backbone/slab.hpp"
#include "mortise/cache/span_cache.hpp"
#include "mortise/source/mmap_heap.hpp"
#include "tests/support/ledger.hpp"
#include "tests/support/stage.hpp"

namespace mortise::test {
namespace {

std::function<void()> on_release_batch;  // called once
std::size_t given_up = 0;

/// Lets a test step in while the cache gives blocks up.
struct Interrupted {
  template <Heap Below> requires Batches<Below> class Over : public Passthrough<Below> {
   public:
    using typename Passthrough<Below>::Thread;
    void release_batch(Thread& t, unsigned c, std::byte** in, unsigned n) noexcept {
      if (const auto step_in = std::exchange(on_release_batch, nullptr)) step_in();
      given_up += n;
      this->below.release_batch(t, c, in, n);
    }
  };
};
using H = Stack<Layers<CoreCache<>, Interrupted, Slab<classes::Geometric<4, 32_KiB>>, SpanCache<>, PageIndex, MmapHeap<>>>;

class CoreCacheTest : public ::testing::Test {
 protected:
  void TearDown() override { on_release_batch = nullptr; }
};

void warm(H& h, H::Thread& t) {
  Block blocks[8];
  for (Block& b : blocks) b = h.allocate(t, {.size = 48});
  for (const Block b : blocks) h.release(t, b);
}

TEST_F(CoreCacheTest, IsOpenInAChildThatWasForkedDuringATrim) {
  Stage<H> stage;
  int status = -1;
  stage.as(0, [&](H& h, auto& t) {
    warm(h, t);
    on_release_batch = [&] {
      if (const pid_t child = fork(); child) {
        waitpid(child, &status, 0);
        return;
      }
      h.reset_after_fork();
      warm(h, t);
      _exit(h.allocate_hit(t, {.size = 48}) ? 0 : 1);
    };
    h.trim(t);
  });
  EXPECT_EQ(status, 0) << "the child's caches stay closed";
}

TEST_F(CoreCacheTest, ServesASignalHandlerThatInterruptsATrim) {
  Stage<H> stage;
  stage.as(0, [&](H& h, auto& t) {
    warm(h, t);
    Block in_handler{};
    on_release_batch = [&] {
      const Block b = h.allocate(t, {.size = 48});  // what malloc and free in a handler do
      h.release(t, b);
      in_handler = h.allocate(t, {.size = 48});
    };
    h.trim(t);
    ASSERT_TRUE(in_handler);
    for (int i = 0; i < 20; ++i) EXPECT_NE(h.allocate(t, {.size = 48}).ptr, in_handler.ptr) << "given out twice";
    h.audit();
  });
}

TEST_F(CoreCacheTest, ANearHitMissesOnceTheCacheIsClosed) {
  Stage<H> stage;
  stage.as(0, [&](H& h, auto& t) {
    warm(h, t);
    const Block b = h.allocate_hit_near(t, {.size = 48});
    ASSERT_TRUE(b);
    EXPECT_GE(H::Classes::size_of(b.class_index()), 48u);
    h.release(t, b);
    h.close();
    EXPECT_FALSE(h.allocate_hit_near(t, {.size = 48}));
  });
}

/// What lies in magazines.
template <class Cached> CacheUsage cached(Cached& h) {
  CacheUsage caches[64];
  Usage u;
  u.caches = caches;
  u.caches_max = 64;
  h.tell(u);
  CacheUsage all;
  for (const CacheUsage& cache : caches) all.blocks += cache.blocks, all.bytes += cache.bytes;
  return all;
}

/// Takes `n` blocks and frees them, in order or in none; how many stay in the cache.
unsigned swing(H& h, H::Thread& t, unsigned n, std::size_t size = 16_KiB, bool in_order = true) {
  std::vector<Block> blocks(n);
  for (Block& b : blocks) b = h.allocate(t, {.size = size});
  if (!in_order) std::shuffle(blocks.begin(), blocks.end(), std::minstd_rand(n));
  for (const Block b : blocks) h.release(t, b);
  return static_cast<unsigned>(cached(h).blocks);
}

TEST_F(CoreCacheTest, KeepsAShareOfWhatAProgramSwingsByAndForgetsIt) {
  Stage<H> stage;
  stage.as(0, [&](H& h, auto& t) {
    EXPECT_LE(swing(h, t, 8), 4u);
    for (int i = 0; i < 3; ++i) swing(h, t, 960);
    const unsigned kept = swing(h, t, 960);
    EXPECT_GT(kept, 12u) << "batches are as short as before";
    EXPECT_LE(kept, 960u / 24);
    for (int i = 0; i < 3; ++i) swing(h, t, 60);
    EXPECT_LE(swing(h, t, 60), 4u) << "the swing is over";
    for (int i = 0; i < 3; ++i) swing(h, t, 960);
    h.trim(t);
    EXPECT_LE(swing(h, t, 8), 4u) << "what is trimmed starts anew";
    h.audit();
  });
}

TEST_F(CoreCacheTest, KeepsAllOfASwingThatComesAgainAndAgain) {
  Stage<H> stage;
  stage.as(0, [&](H& h, auto& t) {
    EXPECT_LE(swing(h, t, 50, 4_KiB), 64_KiB / 4_KiB) << "it may be the only one";
    for (int i = 0; i < 30; ++i) swing(h, t, 50, 4_KiB);
    given_up = 0;
    EXPECT_GE(swing(h, t, 50, 4_KiB), 50u);
    EXPECT_EQ(given_up, 0u) << "no block went below";
    for (int i = 0; i < 30; ++i) swing(h, t, 1000, 4_KiB);
    const unsigned kept = swing(h, t, 1000, 4_KiB);
    EXPECT_GT(kept, 1000u / 24);
    for (const unsigned n : {7000u, 1300u, 4000u, 1200u, 5000u, 1500u, 3000u, 1200u}) swing(h, t, n, 4_KiB);
    EXPECT_LE(swing(h, t, 90, 4_KiB), 7000u / 24) << "swings of no one length";
    h.audit();
  });
}

TEST_F(CoreCacheTest, KeepsSixtyFourTimesAsMuchAtMost) {
  Stage<H> stage;
  stage.as(0, [&](H& h, auto& t) {
    for (int i = 0; i < 30; ++i) swing(h, t, 120, 32_KiB);
    constexpr unsigned kMost = 64 * 64_KiB / 32_KiB;
    EXPECT_GT(swing(h, t, 120, 32_KiB), kMost / 2);
    for (int i = 0; i < 30; ++i) EXPECT_LE(swing(h, t, 1000, 32_KiB), kMost);
    h.trim(t);
    for (int i = 0; i < 30; ++i) EXPECT_LE(swing(h, t, 20'000, 512), 64 * 64_KiB / 512);
    h.audit();
  });
}

/// Their addresses would come again in no order, and what is built of them would lie about: the way through the spans sorts them.
TEST_F(CoreCacheTest, DoesNotHoldWhatIsTakenDownInNoOrder) {
  Stage<H> stage;
  stage.as(0, [&](H& h, auto& t) {
    const std::initializer_list<unsigned> lengths = {3000, 500, 20'000, 700, 9000, 15'000, 400};
    for (const unsigned n : lengths) EXPECT_LE(swing(h, t, n, 48, false), 20'000 / 24);
    for (const unsigned n : lengths) swing(h, t, n, 48);
    EXPECT_GE(swing(h, t, 20'000, 48), 20'000u);
    for (const unsigned n : {40'000u, 700u}) swing(h, t, n, 48, false);
    EXPECT_LE(swing(h, t, 20'000, 48, false), 40'000 / 24) << "once misses show that it lies in order no longer";
    h.audit();
  });
}

/// Blocks so small that a magazine of all its first slots is little: whatever returns, of one length or not.
TEST_F(CoreCacheTest, HoldsWhatAProgramBuildsAndTakesDown) {
  Stage<H> stage;
  stage.as(0, [&](H& h, auto& t) {
    EXPECT_LE(swing(h, t, 20'000, 48), os::kMagazineSlots) << "it may be the only one";
    for (const unsigned n : {3000u, 500u, 20'000u, 700u, 9000u, 15'000u, 400u}) swing(h, t, n, 48);
    given_up = 0;
    for (const unsigned n : {19'000u, 300u, 20'000u, 2500u}) EXPECT_GE(swing(h, t, n, 48), 20'000u);
    EXPECT_EQ(given_up, 0u) << "no block went below";
    for (int i = 0; i < 4; ++i) EXPECT_LE(swing(h, t, 60'000, 16), 20'000u + os::kLongMagazineSlots);
    h.audit();
    h.trim(t);
    EXPECT_EQ(cached(h).blocks, 0u);
    EXPECT_LE(swing(h, t, 20'000, 48), os::kMagazineSlots) << "what is trimmed starts anew";
    h.audit();
  });
}

/// Each swing that is not as long as the last leaves them in less order, which costs little only while they all lie near.
TEST_F(CoreCacheTest, DoesNotHoldWhatTheSecondCacheDoesNot) {
  Stage<H> stage(1, false);
  os::Facts facts = own_facts();
  facts.second_cache_bytes = 512_KiB;
  ASSERT_TRUE(start_below(stage.heap(), facts));
  stage.attach(0);
  stage.as(0, [&](H& h, auto& t) {
    for (const unsigned n : {3000u, 500u, 6000u, 700u, 5000u, 400u}) swing(h, t, n, 48);
    EXPECT_GE(swing(h, t, 6000, 48), 6000u);
    for (const unsigned n : {20'000u, 700u, 20'000u}) swing(h, t, n, 48);
    EXPECT_LE(swing(h, t, 20'000, 48), 20'000 / 24);
    EXPECT_LE(swing(h, t, 6000, 48), 20'000 / 24) << "there will be a longer one again";
    h.audit();
  });
}

TEST_F(CoreCacheTest, KeepsAllBlocksApartWhileMagazinesGetMoreSlots) {
  Stage<H> stage;
  stage.as(0, [&](H& h, auto& t) {
    std::vector<std::uint64_t*> held;
    std::uint64_t next = 1;
    for (const unsigned most : {2000u, 6000u, 3000u, 12'000u, 9000u, 12'000u}) {
      while (held.size() < most) {
        held.push_back(reinterpret_cast<std::uint64_t*>(h.allocate(t, {.size = 48}).ptr));
        *held.back() = next++;
      }
      for (const std::uint64_t first = *held.front(); held.size() > 100; held.pop_back()) {
        ASSERT_EQ(*held.back(), first + held.size() - 1);
        h.release(t, h.block_of(reinterpret_cast<std::byte*>(held.back())));
      }
      next = *held.front() + held.size();
    }
    EXPECT_GT(cached(h).blocks, 4000u);
    h.audit();
  });
}

/// Gives no more than a page at once for bookkeeping, once the cache has its first set.
bool is_stingy = false;
struct Stingy {
  template <Heap Below> requires GivesMeta<Below> && Batches<Below> class Over : public Passthrough<Below> {
   public:
    using typename Passthrough<Below>::Thread;
    std::byte* meta(std::size_t n) noexcept { return is_stingy && n > 4096 ? nullptr : this->below.meta(n); }
  };
};

TEST_F(CoreCacheTest, MakesDoWithItsFirstSlotsWhereThereIsNoMemoryForMore) {
  using Poor = Stack<Layers<CoreCache<>, Stingy, Slab<classes::Geometric<4, 32_KiB>>, SpanCache<>, PageIndex, MmapHeap<>>>;
  Stage<Poor> stage;
  stage.as(0, [&](Poor& h, auto& t) {
    for (is_stingy = false; const unsigned n : {300u, 3000u, 3000u, 3000u}) {
      std::vector<Block> blocks(n);
      for (Block& b : blocks) b = h.allocate(t, {.size = 48});
      for (const Block b : blocks) h.release(t, b);
      if (!std::exchange(is_stingy, true)) continue;
      EXPECT_LE(cached(h).blocks, os::kMagazineSlots);
    }
    is_stingy = false;
    h.audit();
  });
}

TEST_F(CoreCacheTest, DividesWhatAllCoresMayKeep) {
  Stage<H> stage(1, false);
  os::Facts facts = own_facts();
  facts.cpus = 64;
  ASSERT_TRUE(start_below(stage.heap(), facts));
  stage.attach(0);
  stage.as(0, [&](H& h, auto& t) {
    EXPECT_LE(swing(h, t, 1000, 48), os::kMagazineSlots / 4);
    for (int i = 0; i < 30; ++i) EXPECT_LE(swing(h, t, 60'000, 48), os::kLongMagazineSlots / 4);
    EXPECT_GT(swing(h, t, 60'000, 48), os::kMagazineSlots);
    h.trim(t);
    for (int i = 0; i < 30; ++i) EXPECT_LE(swing(h, t, 1000, 32_KiB), 64 * 64_KiB / 32_KiB / 4);
  });
}

/// If this failed, a program that works in batches now of this size, now of that would keep a swing of each.
TEST(CoreCache, KeepsSwingsOfAllSizesWithinOneBound) {
  using Many = Stack<Layers<CoreCache<32_KiB>, Slab<classes::Geometric<8>>, SpanCache<>, PageIndex, MmapHeap<>>>;
  Stage<Many> stage;
  stage.as(0, [](Many& h, auto& t) {
    std::size_t size = 8_KiB;
    const auto swing = [&] {
      std::vector<Block> blocks(300);
      for (Block& b : blocks) b = h.allocate(t, {.size = size});
      for (const Block b : blocks) h.release(t, b);
    };
    for (; size <= 256_KiB; size += size / 8)
      for (int i = 0; i < 40; ++i) swing();
    EXPECT_GT(cached(h).bytes, 16_MiB);
    EXPECT_LE(cached(h).bytes, 26_MiB) << "24, and the last one that grew";
    h.trim(t);
    size = 256_KiB;
    for (int i = 0; i < 40; ++i) swing();
    EXPECT_GT(cached(h).bytes, 1_MiB) << "there is room again";
    h.audit();
  });
}

/// Room for a swing is room for what the program has used: blocks that it held all the time are not that.
TEST_F(CoreCacheTest, KeepsLittleOfWhatIsFreedAfterATrim) {
  Stage<H> stage;
  stage.as(0, [&](H& h, auto& t) {
    for (int i = 0; i < 30; ++i) swing(h, t, 50, 4_KiB);
    std::vector<Block> held(50);
    for (Block& b : held) b = h.allocate(t, {.size = 4_KiB});
    h.trim(t);
    for (const Block b : held) h.release(t, b);
    EXPECT_LE(cached(h).blocks, 64_KiB / 4_KiB);
  });
}

/// A heap for all nodes makes way for one of each: what its magazines hold goes down when the thread ends, but no call finds them.
TEST_F(CoreCacheTest, StaysClosedAndGivesBackWhatItHeld) {
  Stage<H> stage(1);
  const auto expect_no_hit = [&] {
    stage.as(0, [](H& h, auto& t) {
      EXPECT_FALSE(h.allocate_hit_near(t, {.size = 48}));
      const Block b = h.allocate(t, {.size = 48});
      EXPECT_FALSE(h.release_hit(t, b)) << "nobody would empty that magazine";
      h.release(t, b);
    });
  };
  stage.as(0, [](H& h, auto& t) { warm(h, t); });
  stage.heap().close();
  expect_no_hit();
  stage.heap().reset_after_fork();
  expect_no_hit();
  EXPECT_GT(cached(stage.heap()).blocks, 0u);
  stage.as(0, [](H& h, auto& t) { h.trim(t); });
  expect_no_hit();
  EXPECT_EQ(cached(stage.heap()).blocks, 0u);
}

TEST_F(CoreCacheTest, GivesBackWhatItHeldBeforeItWasClosedWhenAThreadEnds) {
  Stage<H> stage(1);
  stage.as(0, [](H& h, auto& t) { warm(h, t); });
  stage.heap().close();
  stage.detach(0);
  EXPECT_EQ(cached(stage.heap()).blocks, 0u);
}

TEST_F(CoreCacheTest, LeavesAnIndexThatIsNobodysAlone) {
  Stage<H> stage;
  stage.as(0, [&](H& h, auto& t) {
    warm(h, t);
    const auto index = own_area.index;
    own_area.index = 0xffff'ffff;  // a thread whose area was never set up
    h.trim(t);
    h.detach(t);
    own_area.index = index;
    EXPECT_TRUE(h.allocate_hit(t, {.size = 48}));
  });
}

TEST_F(CoreCacheTest, DoesNotServeAlignmentsThatItsBlocksDoNotHave) {
  Stage<H> stage;
  stage.as(0, [&](H& h, auto& t) {
    warm(h, t);
    EXPECT_FALSE(h.allocate_hit(t, {.size = 48, .align = 64}));
    EXPECT_FALSE(h.allocate(t, {.size = 48, .align = 64})) << "no layer of this stack can";
  });
}

/// A program that takes as much as it gives back would otherwise fetch again from below what has just gone there.
TEST_F(CoreCacheTest, PassesOnOfABatchWhatHasNoRoomAndNoMore) {
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    std::byte* blocks[720];
    for (std::byte*& p : blocks) p = h.allocate(t, {.size = 48}).ptr;
    const unsigned c = h.block_of(blocks[0]).class_index();
    given_up = 0;
    for (unsigned i = 0; i < 700; i += 100) h.release_batch(t, c, blocks + i, 100);
    EXPECT_GT(given_up, 0u) << "the magazine is full";
    given_up = 0;
    for (unsigned i = 690; i < 700; ++i) ASSERT_TRUE(blocks[i] = h.allocate_hit(t, {.size = 48}).ptr);
    h.release_batch(t, c, blocks + 690, 30);
    EXPECT_EQ(given_up, 20u);
    h.audit();
  });
}

/// A swing that only went up would seem ever longer.
TEST_F(CoreCacheTest, CountsBatchesThatGoDown) {
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    for (unsigned n : {8u, 20u, 5u, 13u, 8u, 20u, 5u, 13u, 8u, 20u, 5u, 13u, 8u, 20u, 5u, 13u}) {
      std::byte* blocks[20];
      for (unsigned i = 0; i < n; ++i) blocks[i] = h.allocate(t, {.size = 16_KiB}).ptr;
      h.release_batch(t, h.block_of(blocks[0]).class_index(), blocks, n);
      EXPECT_LE(cached(h).blocks, 4u);
    }
  });
}

template <unsigned kMetered>
using Coloured = Stack<Layers<CoreCache<64_KiB, by_core, kMetered>, Slab<classes::Coloured<classes::Geometric<8, 32_KiB>>>, SpanCache<>,
                              PageIndex, MmapHeap<>>>;

template <class H> void expect_that_hits_tell_their_classes() {
  Stage<H> stage(4);
  for (unsigned thread = 0; thread < 4; ++thread)
    stage.as(thread, [](H& h, auto& t) {
      for (const std::size_t size : {16, 100, 1000, 5000}) {
        h.release(t, h.allocate(t, {.size = size}));
        if constexpr (Meters<H>) h.set_meter(size, 64_KiB);
        const Block hit = h.allocate_hit(t, {.size = size});
        ASSERT_TRUE(hit);
        EXPECT_EQ(hit.class_index(), h.block_of(hit.ptr).class_index()) << size;
        EXPECT_EQ(hit.size, H::Classes::size_of(hit.class_index()));
      }
    });
}

TEST_F(CoreCacheTest, TellsTheClassOfAHitWithItsColour) {
  expect_that_hits_tell_their_classes<Coloured<0>>();
  expect_that_hits_tell_their_classes<Coloured<1>>();
}

/// One by one or in batches: where there is no room for more all that waits goes, and never more than half a magazine waits.
TEST_F(CoreCacheTest, WhatWaitsForAnotherColourGoesDownAsAWhole) {
  using Two = Coloured<0>;
  Stage<Two> stage(2);
  std::vector<std::byte*> blocks(4000);
  stage.as(0, [&](Two& h, auto& t) {
    for (std::byte*& p : blocks) p = h.allocate(t, {.size = 48}).ptr;
  });
  stage.as(1, [&](Two& h, auto& t) {
    const std::size_t theirs = cached(h).blocks;
    unsigned waiting = 0;
    const auto look = [&](unsigned more) {
      const std::size_t now = cached(h).blocks - theirs;
      EXPECT_LE(now, os::kMagazineSlots / 2);
      EXPECT_TRUE(now == waiting + more || now == 0) << now;
      waiting = now;
    };
    for (unsigned i = 0; i < 2000; ++i) h.release(t, h.block_of(blocks[i])), look(1);
    const unsigned c = h.block_of(blocks[2000]).class_index();
    for (unsigned i = 2000; i < 4000; i += 40) h.release_batch(t, c, &blocks[i], 40), look(40);
    h.audit();
  });
}

TEST_F(CoreCacheTest, GivesAThreadsBlocksBackWhenItEnds) {
  Stage<H> stage(2);
  stage.as(0, [](H& h, auto& t) { warm(h, t); });
  Usage before, after;
  stage.heap().tell(before);
  EXPECT_GT(before.cached, 0u);
  stage.detach(0);
  stage.as(1, [](H& h, auto& t) { h.trim(t); });
  stage.heap().tell(after);
  EXPECT_EQ(after.live, 0u);
  EXPECT_EQ(after.cached, 0u);
}

#if defined(__x86_64__)

/// Where another heap hands out the indices a thread that ends keeps its own, and so do its signal handlers: what they took out of a
/// magazine that was being emptied was given out twice, and what they put there was lost.
TEST_F(CoreCacheTest, ASignalHandlerMeetsNoMagazineThatItsThreadEmptiesAtItsEnd) {
  using Cache = CoreCache<>::Over<Ledger>;
  os::Facts facts = own_facts();
  facts.numbers_threads = false;
  constexpr unsigned kHeld = 3;
  std::unique_ptr<Cache> heap;
  Cache::Thread t;
  std::byte* taken = nullptr;
  bool has_handled = false;
  const auto release = [&](unsigned i) {
    if (const Block b = heap->below.block(i); !heap->release_hit(t, b)) heap->release(t, b);
  };
  const unsigned instructions = EachInstruction::of(
      [&] {
        unsigned left = 0;
        for (; heap && heap->allocate_hit(t, {.size = 64}); ++left) {}
        for (unsigned i = 0, back = 0; heap && i <= kHeld; ++i) {
          back += static_cast<unsigned>(heap->below.returned[i]);
          if (i < kHeld) EXPECT_EQ(heap->below.returned[i], heap->below.block(i).ptr != taken) << "block " << i;
          else EXPECT_EQ(back + left + (taken != nullptr), kHeld + has_handled) << "what a handler released";
        }
        heap = std::make_unique<Cache>();
        ASSERT_TRUE(heap->start(facts));
        own_area.index = 1;
        heap->attach(t);
        for (unsigned i = 0; i < kHeld; ++i) release(i);
        taken = nullptr;
        has_handled = false;
      },
      [&] { heap->detach(t); },
      [&] {
        if (heap->below.is_at_work) return;
        taken = heap->allocate_hit(t, {.size = 64}).ptr;
        release(kHeld);
        has_handled = true;
      });
  EXPECT_GT(instructions, 30u);
  own_area.index = 0;
}

#endif

/// Two such caches use one index of a thread: each that ends gives it back where it was taken.
TEST_F(CoreCacheTest, AboveAnotherGivesIndicesBack) {
  using Two = Stack<Layers<CoreCache<>, CoreCache<>, Slab<classes::Geometric<4, 32_KiB>>, SpanCache<>, PageIndex, MmapHeap<>>>;
  Stage<Two> stage(1);
  for (int life = 0; life < 20; ++life) {
    stage.as(0, [](Two& h, auto& t) {
      for (int i = 0; i < 100; ++i) h.release(t, h.allocate(t, {.size = 100}));
      EXPECT_LT(own_area.index, 3u) << "the threads before have gone";
    });
    stage.detach(0);
    stage.attach(0);
  }
}

}  // namespace
}  // namespace mortise::test
