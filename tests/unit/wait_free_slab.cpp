// If this failed, the memory of a thread that has ended would be lost to the others, frees of other threads would not come home, or a
// program with more threads than slots would get nothing.
#include "mortise/backbone/wait_free_slab.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "mortise/cache/span_cache.hpp"
#include "mortise/cache/span_reserve.hpp"
#include "mortise/os/gather.hpp"
#include "mortise/os/pages.hpp"
#include "mortise/source/mmap_heap.hpp"
#include "tests/support/stage.hpp"

namespace mortise::test {
namespace {

template <unsigned kThreads>
using H = Stack<Layers<WaitFreeSlab<classes::Geometric<4, 64_KiB>, kThreads>, SpanReserve<256, 64>, SpanCache<purge::Never>, PageIndex, MmapHeap<>>>;
using Plenty = H<16>;
using Wide = Stack<Layers<WaitFreeSlab<>, SpanReserve<>, SpanCache<purge::Never>, PageIndex, MmapHeap<>>>;

template <class Heap> Usage usage_of(Stage<Heap>& stage) {
  Usage u;
  stage.heap().tell(u);
  return u;
}

TEST(WaitFreeSlab, FreesOfOthersComeHomeAndAreUsedAgain) {
  Stage<Plenty> stage(2);
  std::vector<Block> blocks(20'000);
  std::size_t mapped = 0;
  for (int round = 0; round < 5; ++round) {
    stage.as(0, [&](Plenty& h, auto& t) { for (Block& b : blocks) b = h.allocate(t, {.size = 100}); });
    stage.as(1, [&](Plenty& h, auto& t) { for (const Block b : blocks) h.release(t, b); });
    if (round == 0) mapped = usage_of(stage).mapped;
  }
  EXPECT_LE(usage_of(stage).mapped, mapped + 1_MiB);
  stage.heap().audit();
}

TEST(WaitFreeSlab, TwoThreadsThatKeepFreeingEachOthersBlocksLiveOnWhatIsReserved) {
  Stage<Wide> stage(2);
  stage.as(0, [](Wide& h, auto& t) {
    ASSERT_TRUE(h.reserve(t, {.bytes = 24_MiB, .prefault = false, .on_exhausted = OnExhausted::fail}));
  });
  const auto take = [](std::size_t n) { return [n](Wide& h, auto& t) { return h.allocate(t, {.size = n}); }; };
  const auto put = [](Block b) { return [b](Wide& h, auto& t) { h.release(t, h.block_of(b.ptr)); }; };
  std::vector<Block> of_one, of_other;
  for (unsigned i = 0; i < 6000; ++i) {  // 11 MiB in all
    of_one.push_back(stage.as(0, take(1000)));
    of_other.push_back(stage.as(1, take(800)));
    ASSERT_TRUE(of_one.back() && of_other.back());
  }
  std::mt19937 random(1);  // so that almost every free sends a word home, and every malloc has one to see to
  for (unsigned round = 0; round < 20'000; ++round) {
    const std::size_t i = random() % of_one.size();
    const Block old_one = of_one[i], old_other = of_other[i];
    of_one[i] = stage.as(0, take(1000));
    stage.as(0, put(old_other));
    of_other[i] = stage.as(1, take(800));
    stage.as(1, put(old_one));
    ASSERT_TRUE(of_one[i] && of_other[i]) << round;
  }
  stage.heap().audit();
}

TEST(WaitFreeSlab, AThreadsFirstBlockHasNoNeighbourOfAnotherThread) {
  Stage<Plenty> stage(2);
  std::vector<std::byte*> mine;
  const auto take = [&](Plenty& h, auto& t) { return h.allocate(t, {.size = 16}).ptr; };
  stage.as(0, [&](Plenty& h, auto& t) { for (unsigned i = 0; i < 64; ++i) mine.push_back(take(h, t)); });
  for (unsigned life = 0; life < 3; ++life) {  // the slot is another's before, and has a past then
    stage.as(1, [&](Plenty& h, auto& t) {
      for (unsigned i = 1; i < 9; i += 2) {  // every other: each leaves neighbours
        h.release(t, h.block_of(mine[i]));
        mine.erase(mine.begin() + i);
      }
      for (unsigned i = 0; i < 100; ++i) {
        std::byte* const p = take(h, t);
        for (const std::byte* other : mine) ASSERT_NE(address_of(p) / 64, address_of(other) / 64) << "two threads write to one line";
        h.release(t, h.block_of(p));
      }
    });
    stage.detach(1);
    stage.attach(1);
  }
  stage.heap().audit();
}

TEST(WaitFreeSlab, AThreadIsBroughtNothingThatItsSlotsLastOneWanted) {
  Stage<Plenty> stage(1);
  std::vector<Block> some(60), word(64);
  stage.as(0, [&](Plenty& h, auto& t) {
    for (Block& b : some) b = h.allocate(t, {.size = 200});
    for (Block& b : word) b = h.allocate(t, {.size = 100});  // all of it: the next one is wanted
  });
  stage.detach(0);
  stage.attach(0);
  stage.as(0, [&](Plenty& h, auto& t) { for (const Block b : some) h.release(t, b); });  // and has time for what is wanted
  ClassUsage classes[256];
  Usage u;
  u.classes = classes;
  u.classes_max = 256;
  stage.heap().tell(u);
  EXPECT_EQ(classes[some[0].class_index()].cached, some.size());
  EXPECT_EQ(classes[word[0].class_index()].cached, 0u);
  stage.heap().audit();
}

/// Calls of a thread that has nothing else to do, until its errands are done.
template <class Heap> void run_errands(Stage<Heap>& stage, unsigned thread, unsigned calls = 200) {
  stage.as(thread, [&](Heap& h, auto& t) {
    for (unsigned i = 0; i < calls; ++i) h.release(t, h.allocate(t, {.size = i == 0 ? 33000u : 16u}));  // the first one is no hit
  });
}
template <class Heap> ClassUsage usage_of_class(Stage<Heap>& stage, unsigned c) {
  ClassUsage classes[256];
  Usage u;
  u.classes = classes;
  u.classes_max = 256;
  stage.heap().tell(u);
  return classes[c];
}

TEST(WaitFreeSlab, OneSpareIsAdoptedAheadOfNeed) {
  Stage<Plenty> stage(1);
  const unsigned c = Plenty::Classes::class_of(8_KiB);  // eight blocks a span, one word
  stage.as(0, [](Plenty& h, auto& t) {
    std::vector<Block> blocks(400);
    for (Block& b : blocks) b = h.allocate(t, {.size = 3000});
    for (const Block b : blocks) h.release(t, b);
  });
  run_errands(stage, 0);  // what is complete now is kept, or goes to the reserve
  const std::size_t mapped = usage_of(stage).mapped;
  std::vector<Block> word(8);
  for (unsigned spans = 1; spans <= 5; ++spans) {
    stage.as(0, [&](Plenty& h, auto& t) { for (Block& b : word) b = h.allocate(t, {.size = 8_KiB}); });
    EXPECT_EQ(usage_of_class(stage, c).spans, spans);
    EXPECT_EQ(usage_of_class(stage, c).cached, 0u);
    run_errands(stage, 0);
    EXPECT_EQ(usage_of_class(stage, c).spans, spans + 1);
    EXPECT_EQ(usage_of_class(stage, c).cached, 8u) << "its word is at hand";
  }
  EXPECT_EQ(usage_of(stage).mapped, mapped);
  stage.heap().audit();
}

/// A thread whose refills find words that were about to go home never needs its spans: what others put home must be found all the same.
TEST(WaitFreeSlab, WhatOthersPutHomeIsFoundByAThreadThatHasWordsAtHand) {
  Stage<Plenty> stage(2);
  std::vector<Block> blocks(3000), few(120);
  stage.as(0, [&](Plenty& h, auto& t) { for (Block& b : blocks) b = h.allocate(t, {.size = 1000}); });
  stage.as(1, [&](Plenty& h, auto& t) { for (const Block b : blocks) h.release(t, b); });
  stage.detach(1);
  stage.attach(1);
  const std::size_t mapped = usage_of(stage).mapped;
  for (unsigned round = 0; round < 200; ++round)
    stage.as(0, [&](Plenty& h, auto& t) {
      for (Block& b : few) b = h.allocate(t, {.size = 200});
      for (const Block b : few) h.release(t, b);
    });
  EXPECT_LE(usage_of_class(stage, blocks[0].class_index()).spans, 1u);
  stage.as(1, [&](Plenty& h, auto& t) { for (Block& b : blocks) b = h.allocate(t, {.size = 600}); });
  EXPECT_LE(usage_of(stage).mapped, mapped);
  stage.heap().audit();
}

TEST(WaitFreeSlab, WhatAThreadLeavesIsUsedByOthers) {
  Stage<Plenty> stage(2);
  std::vector<Block> blocks(20'000);
  stage.as(0, [&](Plenty& h, auto& t) { for (Block& b : blocks) b = h.allocate(t, {.size = 100}); });
  stage.detach(0);
  stage.as(1, [&](Plenty& h, auto& t) { for (const Block b : blocks) h.release(t, b); });  // after their thread has ended
  const std::size_t mapped = usage_of(stage).mapped;
  stage.as(1, [&](Plenty& h, auto& t) { for (Block& b : blocks) b = h.allocate(t, {.size = 3000}); });
  EXPECT_LE(usage_of(stage).mapped, mapped + 20'000 * 3072 * 5 / 4);
  stage.as(1, [&](Plenty& h, auto& t) { for (const Block b : blocks) h.release(t, b); });
  stage.detach(1);
  EXPECT_EQ(usage_of(stage).live, 0u);
}

/// Bytes in huge pages of the mapping that `at` lies in.
std::size_t huge_bytes_at(const void* at) {
  std::ifstream maps("/proc/self/smaps");
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  bool is_here = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long from = 0, to = 0, kib = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2) is_here = address >= from && address < to;
    if (is_here && std::sscanf(line.c_str(), "AnonHugePages: %lu kB", &kib) == 1) return kib << 10;
  }
  return 0;
}

#ifndef MORTISE_THREAD_SANITIZER  // which says where the window may be: its tables begin at no huge page there
/// Of a heap that has grown by `bytes` in blocks of 16 KiB.
std::size_t huge_bytes_of_records(std::size_t bytes, HugePages wish) {
  Stage<Plenty> stage(1);
  std::size_t huge = 0;
  stage.as(0, [&](Plenty& h, auto& t) {
    h.set_huge_pages(wish);
    std::vector<Block> blocks(bytes / 16_KiB);
    for (Block& b : blocks) b = h.allocate(t, {.size = 16_KiB});
    huge = huge_bytes_at(h.page_index().bits_at(0));
    for (const Block b : blocks) h.release(t, b);
  });
  stage.heap().audit();
  return huge;
}

/// The same; the system may refuse a page at a bad moment, so a heap that has fewer than expected is tried again.
std::size_t huge_bytes_of_records(std::size_t bytes, std::size_t expected) {
  std::size_t huge = 0;
  for (unsigned tries = 0; tries < 3 && (tries == 0 || huge < expected); ++tries) huge = huge_bytes_of_records(bytes, HugePages::automatic);
  return huge;
}

TEST(WaitFreeSlab, RecordsOfALargeHeapShareHugePages) {
  std::byte* const room = os::map(4_MiB);
  ASSERT_TRUE(room);
  auto* const place = reinterpret_cast<std::byte*>(round_up(address_of(room), 2_MiB));
  *place = std::byte{1};
  const std::size_t each = os::gather(place) ? 2_MiB : 0;  // nothing, where the system makes no huge pages when it is asked to
  EXPECT_EQ(*place, std::byte{1});
  os::unmap(room, 4_MiB);
  EXPECT_EQ(huge_bytes_of_records(120_MiB, HugePages::automatic), 0u);  // most of it would be nobody's
  EXPECT_EQ(huge_bytes_of_records(200_MiB, each), each);
  EXPECT_EQ(huge_bytes_of_records(300_MiB, 2 * each), 2 * each);  // the second before most of its records are there
  EXPECT_EQ(huge_bytes_of_records(300_MiB, HugePages::never), 0u);
  EXPECT_EQ(huge_bytes_of_records(1100_MiB, 5 * each), 5 * each);
}
#endif

/// Large blocks have no records worth a page: only what is in spans counts.
TEST(WaitFreeSlab, RecordsBehindLargeBlocksTakeNoHugePage) {
  Stage<Plenty> stage(1);
  stage.as(0, [](Plenty& h, auto& t) {
    std::vector<Block> blocks;
    for (unsigned i = 0; i < 4; ++i) {
      blocks.push_back(h.allocate(t, {.size = 256_MiB}));
      for (unsigned n = 0; n < 64; ++n) blocks.push_back(h.allocate(t, {.size = 64_KiB}));
    }
    EXPECT_EQ(huge_bytes_at(h.page_index().bits_at(0)), 0u);
    for (const Block b : blocks) h.release(t, b);
  });
  stage.heap().audit();
}

TEST(WaitFreeSlab, AThreadThatEndsKeepsNoEmptySpan) {
  Stage<Plenty> stage(1);
  stage.as(0, [](Plenty& h, auto& t) {
    for (unsigned c = 1; c <= Plenty::Classes::kCount; ++c) h.release(t, h.allocate(t, {.size = Plenty::Classes::size_of(c)}));
  });
  stage.detach(0);
  EXPECT_EQ(usage_of(stage).cached, 0u);
}

TEST(WaitFreeSlab, ServesThreadsWithoutASlot) {
  Stage<H<2>> stage(4);  // one slot for threads, one for those without
  std::vector<Block> blocks;
  for (unsigned i = 0; i < 400; ++i)
    blocks.push_back(stage.as(i % 4, [](auto& h, auto& t) { return h.allocate(t, {.size = 40}); }));
  for (const Block b : blocks) ASSERT_TRUE(b);
  for (unsigned i = 0; i < 400; ++i) stage.as(i % 3, [&](auto& h, auto& t) { h.release(t, blocks[i]); });
  for (unsigned i = 0; i < 4; ++i) stage.detach(i);
  EXPECT_EQ(usage_of(stage).live, 0u);
}

/// The slot that is kept for threads without one is nobody's in a child, whatever another thread of the parent was doing.
TEST(WaitFreeSlab, AChildServesThreadsWithoutASlot) {
  Stage<H<2>> stage(1);
  H<2>::Thread guest{};
  stage.heap().release(guest, stage.heap().allocate(guest, {.size = 40}));
  std::atomic<bool> enough{false};
  std::thread trims([&] {
    H<2>::Thread none{};
    while (!enough) stage.heap().trim(none);
  });
  for (int i = 0; i < 200; ++i) {
    stage.heap().lock_all();
    const pid_t child = fork();
    if (child == 0) {
      stage.heap().reset_after_fork();
      alarm(20);  // ends the child that would wait for ever
      _exit(stage.heap().allocate(guest, {.size = 40}) ? 0 : 1);
    }
    stage.heap().unlock_all();
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0) << "child " << i;
  }
  enough = true;
  trims.join();
}

TEST(SpanReserve, ServesWithoutGrowing) {
  Stage<Plenty> stage(1);
  stage.as(0, [](Plenty& h, auto& t) {
    ASSERT_TRUE(h.reserve(t, {.bytes = 8_MiB, .prefault = true, .on_exhausted = OnExhausted::fail}));
    std::size_t bytes = 0;
    std::vector<Block> blocks;
    while (const Block b = h.allocate(t, {.size = 1000})) blocks.push_back(b), bytes += b.size;
    EXPECT_GE(bytes, 3_MiB) << "half of the reserve is for small blocks";
    EXPECT_FALSE(h.allocate(t, {.size = 100'000})) << "large blocks are grown";
    for (const Block b : blocks) h.release(t, b);
    EXPECT_TRUE(h.allocate(t, {.size = 16})) << "what was freed is there for other sizes";
    Usage u;
    h.tell(u);
    EXPECT_EQ(u.grown, 0u);
  });
}

}  // namespace
}  // namespace mortise::test
