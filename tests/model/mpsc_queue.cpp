// If this fails, a block freed by another thread is lost on its way home, arrives twice, or a stopped thread stops
// others: the queue of remote frees is run in every interleaving that matters, with each thread stopped for ever at
// each step.
#include "mortise/sync/mpsc_queue.hpp"

#include <gtest/gtest.h>

#include "owned_blocks.hpp"
#include "running.hpp"

namespace mortise::model {
namespace {

struct Home {
  MpscQueue queue;
  Block block[4];

  FreeLink* take() {
    const StepLimit bound("pop", MpscQueue::kPopSteps);
    return queue.pop();
  }
  void send(unsigned first, unsigned last) {
    for (unsigned i = first; i <= last; ++i) {
      own(&block[i].link);
      disown(&block[i].link);
      if (i < last) block[i].link.next.store(&block[i + 1].link, Order::relaxed);
    }
    const StepLimit bound("push_chain", MpscQueue::kPushSteps);
    queue.push_chain(&block[first].link, &block[last].link);
  }
  void receive() {
    if (FreeLink* const link = take()) own(link);
  }
};

struct OneSender : Home {
  static constexpr unsigned kThreads = 2;
  void run(unsigned thread) {
    if (thread == 0) send(0, 0), send(1, 1);
    else receive(), receive();
  }
  void finish() { check_each_once(queue, block, 2); }
};

struct TwoSenders : Home {
  static constexpr unsigned kThreads = 3;
  void run(unsigned thread) {
    if (thread < 2) send(thread, thread);
    else receive(), receive();
  }
  void finish() { check_each_once(queue, block, 2); }
};

struct Chains : Home {
  static constexpr unsigned kThreads = 3;
  void run(unsigned thread) {
    if (thread < 2) send(thread * 2, thread * 2 + 1);
    else receive();
  }
  void finish() { check_each_once(queue, block, 4); }
};

struct SentAgain : Home {  // a block goes round while the owner empties the queue to its stub
  static constexpr unsigned kThreads = 2;
  Atomic<FreeLink*> program;
  void run(unsigned thread) {
    if (thread == 0) {
      send(0, 0);
      if (FreeLink* const link = program.load(Order::acquire)) {
        disown(link);
        const StepLimit bound("push_chain", MpscQueue::kPushSteps);
        queue.push(link);
      }
    } else {
      FreeLink* const link = take();
      if (!link) return;
      own(link);
      program.store(link, Order::release);
      receive();
    }
  }
  void finish() { check_each_once(queue, block, 1); }
};

TEST(MpscQueue, OneSender) { check<OneSender>("two pushes against two pops"); }
TEST(MpscQueue, TwoSenders) { check<TwoSenders>("two pushers against two pops"); }
TEST(MpscQueue, Chains) { check<Chains>("two chains against a pop"); }
TEST(MpscQueue, SentAgain) { check<SentAgain>("a block sent twice"); }

TEST(MpscQueue, EveryOrderIsNeeded) {
  const std::vector<std::string> needless = needless_orders<OneSender, TwoSenders, Chains, SentAgain>("MpscQueue::");
  EXPECT_EQ(needless, (std::vector<std::string>{}));
}

}  // namespace
}  // namespace mortise::model
