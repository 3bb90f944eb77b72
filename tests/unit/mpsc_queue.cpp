// If this fails, blocks that other threads free do not all come home: real threads push while the owner pops.
#include "mortise/sync/mpsc_queue.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace mortise {
namespace {

struct Block {
  FreeLink link;
  Atomic<unsigned> arrivals;
};

constexpr unsigned kThreads = 4, kRounds = 20'000;

TEST(MpscQueue, EveryBlockArrivesOnce) {
  std::vector<Block> blocks(kThreads * kRounds);
  MpscQueue queue;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < kRounds; ++i) queue.push(&blocks[t * kRounds + i].link);
    });
  unsigned arrived = 0;
  while (arrived < kThreads * kRounds) {
    FreeLink* const link = queue.pop();
    if (!link) {
      std::this_thread::yield();
      continue;
    }
    EXPECT_EQ(reinterpret_cast<Block*>(link)->arrivals.fetch_add(1, Order::relaxed), 0u);
    ++arrived;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(queue.pop(), nullptr);
}

TEST(MpscQueue, BlocksComeOutInTheOrderTheyWentIn) {
  Block block[3];
  MpscQueue queue;
  EXPECT_EQ(queue.pop(), nullptr);
  queue.push(&block[0].link);
  block[1].link.next.store(&block[2].link, Order::relaxed);
  queue.push_chain(&block[1].link, &block[2].link);
  for (Block& b : block) EXPECT_EQ(queue.pop(), &b.link);
  EXPECT_EQ(queue.pop(), nullptr);
}

}  // namespace
}  // namespace mortise
