// If this fails, the two-word compare-exchange of this processor, or the seam over it, is not what the models assume:
// real threads move blocks through the bin, and each block must have one owner at a time.
#include "mortise/sync/lock_free_bin.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace mortise {
namespace {

struct Block {
  FreeLink link;
  Atomic<unsigned> owners;
};

constexpr unsigned kBlocks = 64, kThreads = 4, kRounds = 20'000;

void own(FreeLink* link) { ASSERT_EQ(reinterpret_cast<Block*>(link)->owners.fetch_add(1, Order::relaxed), 0u); }
void disown(FreeLink* link) { reinterpret_cast<Block*>(link)->owners.fetch_sub(1, Order::relaxed); }

template <class Bin>
unsigned count_left(Bin& bin) {
  unsigned left = 0;
  while (bin.pop()) ++left;
  return left;
}

TEST(LockFreeBin, EachBlockHasOneOwner) {
  std::vector<Block> blocks(kBlocks);
  LockFreeBin bin;
  EXPECT_TRUE(bin.empty());
  for (Block& block : blocks) bin.push(&block.link);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t)
    threads.emplace_back([&bin, t] {
      for (unsigned i = 0; i < kRounds; ++i) {
        FreeLink* link = i % 64 == t ? bin.steal_all() : bin.pop();
        if (link && i % 64 != t) link->next.store(nullptr, Order::relaxed);
        while (link) {
          FreeLink* const next = link->next.load(Order::relaxed);
          own(link);
          disown(link);
          bin.push(link);
          link = next;
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count_left(bin), kBlocks);
}

TEST(LockFreeBin, ChainsComeOutNewestFirst) {
  Block block[3];
  LockFreeBin bin;
  block[0].link.next.store(&block[1].link, Order::relaxed);
  bin.push_chain(&block[0].link, &block[1].link);
  bin.push(&block[2].link);
  EXPECT_EQ(bin.pop(), &block[2].link);
  FreeLink* const rest = bin.steal_all();
  EXPECT_EQ(rest, &block[0].link);
  EXPECT_EQ(rest->next.load(Order::relaxed), &block[1].link);
  EXPECT_EQ(block[1].link.next.load(Order::relaxed), nullptr);
  EXPECT_EQ(bin.pop(), nullptr);
  EXPECT_EQ(bin.steal_all(), nullptr);
}

}  // namespace
}  // namespace mortise
