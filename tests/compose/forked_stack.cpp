// If this failed, a program with a stack of its own that forks as docs/2-layers.md says would have children that wait for ever for a lock
// that another thread of the parent held.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "mortise/allocators/hslab.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/os/print_and_abort.hpp"

namespace mortise::test {
namespace {

constinit Hslab heap{};
constinit thread_local os::OwnArea area{};

/// Takes and gives until `goes_on` says no; sizes of all classes, so that many locks are taken.
template <class GoesOn> void work(GoesOn&& goes_on) {
  Hslab::Thread thread;
  attach_below(heap, thread);
  std::vector<Block> blocks;
  for (unsigned i = 0; goes_on(i); ++i) {
    blocks.push_back(heap.allocate(thread, {.size = i * 37 % 5000}));
    if (blocks.size() < 2000) continue;
    for (const Block b : blocks) heap.release(thread, b);
    blocks.clear();
  }
  for (const Block b : blocks) heap.release(thread, b);
  detach_below(heap, thread);
}

TEST(ForkedStack, GoesOnInTheChild) {
  constexpr int kWatchdogS = 60;
  ASSERT_TRUE(heap.start(os::read_facts(&area)));
  pthread_atfork([] { lock_below(heap); }, [] { unlock_below(heap); }, [] { reset_below(heap); });
  std::atomic<bool> stop{false};
  std::thread others[2];
  for (auto& other : others) other = std::thread([&] { work([&](unsigned) { return !stop; }); });
  for (int round = 0; round < 100; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(kWatchdogS);
      work([](unsigned i) { return i < 5000; });
      _exit(0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "round " << round;
  }
  stop = true;
  for (auto& other : others) other.join();
}

}  // namespace
}  // namespace mortise::test
