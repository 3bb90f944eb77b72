// If this failed, a program would be told that there is no memory while threads of it keep blocks they have freed, would be given a block
// that is too small, or would leak what a thread keeps at its end.
#include "mortise/cache/elimination_array.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "mortise/backbone/tlsf.hpp"
#include "mortise/source/mmap_heap.hpp"
#include "mortise/source/static_heap.hpp"
#include "mortise/sync/cc_synch_lock.hpp"
#include "mortise/sync/flat_combining_lock.hpp"
#include "mortise/sync/futex_lock.hpp"
#include "tests/support/stage.hpp"

namespace mortise::test {
namespace {

using Array = EliminationArray<>;
using Arena = Stack<Layers<Array, Tlsf<FutexLock>, StaticHeap<1_MiB>>>;
using Mapped = Stack<Layers<Array, Tlsf<FutexLock>, MmapHeap<>>>;

TEST(EliminationArray, AMallocTakesBackWhatItsThreadHasFreed) {
  Stage<Mapped> stage;
  stage.as(0, [](Mapped& h, auto& t) {
    for (const std::size_t size : {std::size_t{1}, std::size_t{24}, std::size_t{25}, std::size_t{500}, std::size_t{4088}}) {
      const Block b = h.allocate(t, {.size = size});
      h.release(t, {b.ptr, 0});
      const Block again = h.allocate_hit(t, {.size = size});
      EXPECT_EQ(again.ptr, b.ptr) << size;
      EXPECT_EQ(again.size, h.measure(again).size) << size;
      EXPECT_GE(again.size, size);
      h.release(t, again);
    }
    EXPECT_FALSE(h.allocate_hit(t, {.size = 4089}));
    EXPECT_FALSE(h.allocate_hit(t, {.size = 24, .align = 32}));
  });
}

TEST(EliminationArray, ABlockThatComesBackReadsAsZeroWhereThatIsAsked) {
  Stage<Mapped> stage;
  stage.as(0, [](Mapped& h, auto& t) {
    const Block b = h.allocate(t, {.size = 100});
    std::memset(b.ptr, 0xff, 100);
    h.release(t, b);
    const Block again = h.allocate(t, {.size = 100, .zeroed = true});
    ASSERT_EQ(again.ptr, b.ptr);
    for (int i = 0; i < 100; ++i) ASSERT_EQ(again.ptr[i], std::byte{0});
  });
}

TEST(EliminationArray, WhatThreadsKeepIsNoReasonToRefuse) {
  Stage<Arena> stage(2);
  std::vector<Block> all;
  stage.as(0, [&](Arena& h, auto& t) {
    while (const Block b = h.allocate(t, {.size = 1000})) all.push_back(b);
    ASSERT_GT(all.size(), 900u);
    for (std::size_t i = 0; i < 6; ++i) h.release(t, {all[i].ptr, 0});  // four stay in slots, two wait; neighbours all
  });
  stage.as(1, [&](Arena& h, auto& t) {
    EXPECT_TRUE(h.allocate(t, {.size = 4 * 1000})) << "the blocks that another thread keeps, merged, are room enough";
    EXPECT_FALSE(h.allocate(t, {.size = 4 * 1000}));
    h.audit();
  });
}

TEST(EliminationArray, KeepsNoMoreThanItSays) {
  Stage<Mapped> stage;
  stage.as(0, [](Mapped& h, auto& t) {
    std::vector<Block> blocks;
    for (std::size_t size = 8; size <= 4088; size += 16)
      for (int i = 0; i < 40; ++i) blocks.push_back(h.allocate(t, {.size = size}));
    for (const Block& b : blocks) h.release(t, {b.ptr, 0});
    Usage u;
    h.tell(u);
    EXPECT_EQ(u.live, 0u);
    Usage below;
    h.below.tell(below);
    EXPECT_LE(below.live, std::size_t{256} << 10);
    h.trim(t);
    Usage after;
    h.below.tell(after);
    EXPECT_EQ(after.live, 0u);
    h.audit();
  });
}

TEST(EliminationArray, AThreadsEndGivesAllBack) {
  Stage<Mapped> stage;
  stage.as(0, [](Mapped& h, auto&) {
    Mapped::Thread t{};
    h.attach(t);
    std::vector<Block> blocks;
    for (int i = 0; i < 10; ++i) blocks.push_back(h.allocate(t, {.size = 300}));
    for (const Block& b : blocks) h.release(t, {b.ptr, 0});
    h.detach(t);
    Usage below;
    h.below.tell(below);
    EXPECT_EQ(below.live, 0u);
    const Block b = h.allocate(t, {.size = 300});
    h.release(t, {b.ptr, 0});
    h.below.tell(below = {});
    EXPECT_EQ(below.live, 0u) << "a thread that has ended keeps nothing";
  });
}

/// Four threads in an arena that is too small for them: they keep blocks, find no memory, empty each other's places, end and begin again.
template <class Lock> void meet_in_a_full_arena() {
  using Heap = Stack<Layers<EliminationArray<>, Tlsf<Lock>, StaticHeap<256_KiB>>>;
  static constinit Heap heap{};
  heap.start({});
  std::atomic<int> refused = 0, spoilt = 0;
  std::vector<std::thread> threads;
  for (unsigned number = 1; number <= 4; ++number)
    threads.emplace_back([&, number] {
      std::uint32_t random = number;
      const auto below = [&](std::uint32_t n) { return (random = random * 1664525 + 1013904223) % 65'536 * n >> 16; };
      for (int life = 0; life < 4; ++life) {
        typename Heap::Thread t{};
        heap.attach(t);
        Block blocks[100] = {};
        for (int i = 0; i < 1'000; ++i) {
          Block& b = blocks[below(100)];
          if (b.ptr) {
            if (*reinterpret_cast<Block**>(b.ptr) != &b) ++spoilt;
            heap.release(t, b);
          }
          b = heap.allocate(t, {.size = below(8) ? 24 + below(1'000) : 8'000});
          if (b.ptr) *reinterpret_cast<Block**>(b.ptr) = &b;
          else ++refused;
        }
        for (const Block& b : blocks)
          if (b.ptr) heap.release(t, b);
        heap.detach(t);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(spoilt.load(), 0) << "two threads had one block";
  EXPECT_GT(refused.load(), 0) << "the arena was never full";
  Usage u;
  heap.tell(u);
  EXPECT_EQ(u.live, 0u);
  heap.audit();
}
TEST(EliminationArray, ThreadsMeetInAFullArenaUnderAFutex) { meet_in_a_full_arena<FutexLock>(); }
TEST(EliminationArray, ThreadsMeetInAFullArenaUnderFlatCombining) { meet_in_a_full_arena<FlatCombiningLock<>>(); }
TEST(EliminationArray, ThreadsMeetInAFullArenaUnderCcSynch) { meet_in_a_full_arena<CcSynchLock<>>(); }

TEST(EliminationArrayDeathTest, ASecondFreeIsReported) {
  Stage<Mapped> stage;
  stage.as(0, [](Mapped& h, auto& t) {
    const Block b = h.allocate(t, {.size = 64});
    h.release(t, {b.ptr, 0});
    EXPECT_DEATH(h.release(t, {b.ptr, 0}), "fault=double_free");
  });
}

}  // namespace
}  // namespace mortise::test
