// If this fails, two threads may be given the same block, or a block freed on one core never comes back: the bin that
// all cores share is run in every interleaving that matters, with each thread stopped for ever at each step.
#include "mortise/sync/lock_free_bin.hpp"

#include <gtest/gtest.h>

#include "owned_blocks.hpp"
#include "running.hpp"

namespace mortise::model {
namespace {

/// Blocks with a word that their owner writes: two owners at a time are a race.
struct Blocks {
  LockFreeBin bin;
  Block block[4];

  FreeLink* take() {
    FreeLink* const link = bin.pop();
    if (link) own(link);
    return link;
  }
  void give(FreeLink* link) {
    disown(link);
    bin.push(link);
  }
};

struct PushAgainstPop : Blocks {
  static constexpr unsigned kThreads = 2;
  PushAgainstPop() { bin.push(&block[0].link); }
  void run(unsigned thread) {
    if (thread == 0) give_own(1);
    else take(), take();
  }
  void give_own(unsigned i) {
    own(&block[i].link);
    give(&block[i].link);
  }
  void finish() { check_each_once(bin, block, 2); }
};

struct PopUsePushTwice : Blocks {  // where ABA would strike
  static constexpr unsigned kThreads = 2;
  PopUsePushTwice() {
    bin.push(&block[1].link);
    bin.push(&block[0].link);
  }
  void run(unsigned thread) {
    if (thread == 0) {
      take();
    } else {
      FreeLink* const a = take();
      take();
      if (a) give(a);
    }
  }
  void finish() { check_each_once(bin, block, 2); }
};

struct StealAgainstPushAndPop : Blocks {
  static constexpr unsigned kThreads = 3;
  StealAgainstPushAndPop() {
    bin.push(&block[1].link);
    bin.push(&block[0].link);
  }
  void run(unsigned thread) {
    if (thread == 0) {
      for (FreeLink* link = bin.steal_all(); link;) {
        FreeLink* const next = link->next.load(Order::relaxed);
        own(link);
        link = next;
      }
    } else if (thread == 1) {
      own(&block[2].link);
      give(&block[2].link);
    } else {
      take();
    }
  }
  void finish() { check_each_once(bin, block, 3); }
};

struct ChainAgainstPops : Blocks {
  static constexpr unsigned kThreads = 3;
  void run(unsigned thread) {
    if (thread == 0) {
      own(&block[0].link), own(&block[1].link);
      disown(&block[0].link), disown(&block[1].link);
      block[0].link.next.store(&block[1].link, Order::relaxed);
      bin.push_chain(&block[0].link, &block[1].link);
    } else {
      take();
    }
  }
  void finish() { check_each_once(bin, block, 2); }
};

TEST(LockFreeBin, PushAgainstPop) { check<PushAgainstPop>("push against two pops"); }
TEST(LockFreeBin, PopUsePushTwice) { check<PopUsePushTwice>("pop against pop, pop, push"); }
TEST(LockFreeBin, StealAgainstPushAndPop) { check<StealAgainstPushAndPop>("steal_all, push and pop"); }
TEST(LockFreeBin, ChainAgainstPops) { check<ChainAgainstPops>("chain against two pops"); }

TEST(LockFreeBin, EveryOrderIsNeeded) {
  const std::vector<std::string> needless =
      needless_orders<PushAgainstPop, PopUsePushTwice, StealAgainstPushAndPop, ChainAgainstPops>("LockFreeBin::");
  EXPECT_EQ(needless, (std::vector<std::string>{}));
}

}  // namespace
}  // namespace mortise::model
