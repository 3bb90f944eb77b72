// If these fail, threads of iamalloc share cache lines, lose blocks that another thread freed, or let memory lie unused.
#include "mortise/backbone/sub_heaps.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "mortise/allocators/iamalloc.hpp"

namespace mortise {

// A found corruption ends the test here; in a shared object it would be reported by abi/report.cpp.
void report(Fault fault, Block block) noexcept {
  std::fprintf(stderr, "fault %d at %p\n", static_cast<int>(fault), static_cast<void*>(block.ptr));
  std::abort();
}

namespace {

constexpr std::size_t kLine = 64;

struct Rig {
  std::unique_ptr<Iamalloc> heap = std::make_unique<Iamalloc>();
  std::deque<Iamalloc::Thread> threads;
  explicit Rig(int count) {
    EXPECT_TRUE(heap->start(os::read_facts(nullptr)));
    for (int i = 0; i < count; ++i) {
      threads.emplace_back();
      heap->attach(threads.back());
    }
  }
  Block take(int thread, std::size_t bytes, std::size_t align = kMinAlign) {
    return heap->allocate(threads[static_cast<std::size_t>(thread)], {.size = bytes, .align = align});
  }
  void give(int thread, Block b) { heap->release(threads[static_cast<std::size_t>(thread)], b); }
};

std::uintptr_t line_of(const std::byte* p) { return reinterpret_cast<std::uintptr_t>(p) / kLine; }

TEST(SubHeaps, NoTwoBlocksShareACacheLine) {
  Rig rig(2);
  std::map<std::uintptr_t, int> owner;
  for (int i = 0; i < 2000; ++i) {
    const Block b = rig.take(i % 2, static_cast<std::size_t>(i % 200 + 1));
    ASSERT_TRUE(b);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.ptr) % kLine, 0u);
    for (std::uintptr_t l = line_of(b.ptr); l <= line_of(b.ptr + i % 200); ++l) EXPECT_TRUE(owner.emplace(l, i).second);
  }
  rig.heap->audit();
}

TEST(SubHeaps, ABlockFreedElsewhereComesBackToItsOwner) {
  Rig rig(2);
  const Block b = rig.take(0, 100);
  rig.give(1, b);
  EXPECT_NE(rig.take(1, 100).ptr, b.ptr) << "the freer's heap does not get it";
  EXPECT_EQ(rig.take(0, 100).ptr, b.ptr) << "the owner takes it back at its next request";
}

TEST(SubHeaps, IdleMemoryIsLentBeforeAHeapGrows) {
  Rig rig(2);
  std::vector<Block> blocks;
  for (int i = 0; i < 64; ++i) blocks.push_back(rig.take(0, 256 << 10));
  for (const Block b : blocks) rig.give(0, b);
  Usage before;
  rig.heap->tell(before);
  std::vector<Block> borrowed;
  for (int i = 0; i < 32; ++i) borrowed.push_back(rig.take(1, 256 << 10));
  Usage after;
  rig.heap->tell(after);
  EXPECT_EQ(after.mapped, before.mapped) << "nothing new was mapped";
  for (const Block b : borrowed) rig.give(1, b);
  rig.heap->audit();
}

// Threads come and go, two at a time, and free everything before they end: whoever comes next finds that memory, be
// it idle at home or on a list of returned blocks that no thread of that heap will ever look at again.
TEST(SubHeaps, ThreadsThatComeAndGoDoNotGrowTheHeap) {
  Rig rig(1);
  constexpr int kBlocks = 20'000;
  // What each heap may keep to itself, and a step of its growth.
  constexpr std::size_t kKept = SharedHeap<>::kSlotCount * (std::size_t{5} << 18);
  std::size_t mapped_at_first = 0;
  for (int round = 0; round < 60; ++round) {
    Iamalloc::Thread pair[2];
    std::vector<Block> blocks[2];
    for (auto& t : pair) rig.heap->attach(t);
    for (int i = 0; i < 2 * kBlocks; ++i) {
      const auto who = static_cast<std::size_t>(i % 2);
      blocks[who].push_back(rig.heap->allocate(pair[who], {.size = static_cast<std::size_t>(100 + i % 7 * 64)}));
      ASSERT_TRUE(blocks[who].back());
    }
    for (std::size_t who = 0; who < 2; ++who)
      for (const Block b : blocks[who]) rig.heap->release(pair[who], b);
    for (auto& t : pair) rig.heap->detach(t);
    Usage u;
    rig.heap->tell(u);
    if (round == 2) mapped_at_first = u.mapped;
    EXPECT_TRUE(round <= 2 || u.mapped <= mapped_at_first + kKept) << u.mapped << " bytes in round " << round;
  }
  rig.heap->audit();
}

TEST(SubHeaps, CountsWhatGrowsAndShrinksInPlace) {
  Rig rig(1);
  Iamalloc::Thread& t = rig.threads[0];
  Block b = rig.take(0, 1000);
  for (int i = 0; i < 2000; ++i)
    if (const Block other = rig.heap->resize_in_place(t, b, i % 2 ? 1000 : 100'000)) b = other;
  rig.give(0, b);
  rig.heap->trim(t);
  Usage u;
  rig.heap->tell(u);
  EXPECT_EQ(u.live, 0u);
  EXPECT_LT(u.mapped, std::size_t{4} << 20);
  rig.heap->audit();
}

// Random requests of four logical threads, each block filled and checked, freed by any of them.
TEST(SubHeaps, KeepsEveryBlocksContents) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  Rig rig(4);
  struct Held {
    Block b;
    std::size_t bytes;
    unsigned char fill;
  };
  std::vector<Held> held;
  const auto check = [](const Held& h) {
    for (std::size_t i = 0; i < h.bytes; ++i) ASSERT_EQ(static_cast<unsigned char>(h.b.ptr[i]), h.fill);
  };
  for (int step = 0; step < 30000; ++step) {
    const int thread = static_cast<int>(random() % 4);
    if (held.size() < 300 && random() % 5 != 0) {
      const std::size_t bytes = random() % 50 ? random() % 2000 : random() % 300000;
      const std::size_t align = random() % 8 ? kMinAlign : std::size_t{16} << random() % 9;
      const Block b = rig.take(thread, bytes, align);
      ASSERT_TRUE(b);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.ptr) % align, 0u);
      held.push_back({b, bytes, static_cast<unsigned char>(step)});
      std::memset(b.ptr, held.back().fill, bytes);
    } else if (!held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      check(held.back());
      rig.give(thread, held.back().b);
      held.pop_back();
    }
    if (step % 5000 == 0) rig.heap->audit();
  }
  for (const Held& h : held) check(h), rig.give(0, h.b);
  for (auto& t : rig.threads) rig.heap->trim(t);
  rig.heap->audit();
  Usage u;
  rig.heap->tell(u);
  EXPECT_EQ(u.live, 0u);
}

}  // namespace
}  // namespace mortise
