// If this fails, the child of a fork has fewer objects than its parent had idle, or waits for one that it was given: forks that came
// amid calls of other threads, or in a signal handler amid a call of its own.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "mortise/pool.hpp"

namespace mortise {
namespace {

class Forks : public testing::TestWithParam<pool_front> {};
std::string name_of_front(const testing::TestParamInfo<pool_front>& front) {
  const char* const names[] = {"automatic", "cores", "threads", "cpus", "none"};
  return names[static_cast<int>(front.param)];
}
INSTANTIATE_TEST_SUITE_P(Every, Forks,
                         testing::Values(pool_front::automatic, pool_front::threads, pool_front::cpus, pool_front::none), name_of_front);

int status_of(pid_t child) {
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

/// Calls `work` once, amid a trim.
struct Kept : kept_constructed<std::uint64_t> {
  std::function<void()> work;
  unsigned left = 0;
  std::uint64_t* make(void* at) noexcept { return ::new (at) std::uint64_t{1}; }
  void destroy(std::uint64_t& object) noexcept {
    object = 0;
    if (left && --left == 0) work();
  }
};

TEST_P(Forks, AmidATrimOfAnotherThreadTheChildHasAllThatWasIdle) {
  constexpr std::uint32_t kMaximum = 1000;
  for (const std::uint32_t keep : {0u, 100u}) {
    distributed_pool<std::uint64_t, Kept> pool({.maximum = kMaximum, .prefill = kMaximum, .front = GetParam()});
    const auto fork_one = [&] {
      const pid_t child = fork();
      if (child == 0) {
        std::uint32_t got = 0, dead = 0;
        for (const std::uint64_t* one; (one = pool.acquire_raw()); ++got) dead += *one != 1;
        const pool_statistics s = pool.statistics();
        _exit(dead || s.in_use != kMaximum || s.idle + s.bare ? 1 : got == kMaximum ? 0 : 2);
      }
      EXPECT_EQ(WEXITSTATUS(status_of(child)), 0) << "2: objects are missing; 1: other mistakes";
    };
    pool.hooks().work = [&] { std::thread(fork_one).join(); };
    pool.hooks().left = 500;
    pool.trim(keep);
    EXPECT_EQ(pool.statistics().idle, keep);
  }
}

/// Whether the kernel has the process's first thread asleep in a futex: then it has made up its mind to wait.
bool main_thread_sleeps() {
  std::ifstream file("/proc/self/task/" + std::to_string(getpid()) + "/syscall");
  long number = -1;
  return file >> number && number == SYS_futex;
}

using Pool = distributed_pool<int>;
struct Waiter {
  Pool* pool;
  int* held;
  std::thread other;
} g_waiter;

void release_when_main_sleeps() {
  while (!main_thread_sleeps()) sched_yield();
  g_waiter.pool->release(g_waiter.held);
}
/// Goes on in a child, with another thread that has an object to give.
void go_on_in_a_child(int) {
  if (const pid_t child = fork()) {
    const int status = status_of(child);
    _exit(WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  }
  alarm(60);
  g_waiter.other = std::thread(release_when_main_sleeps);
}

TEST_P(Forks, InAHandlerAmidAWaitTheChildIsStillWoken) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGUSR1, go_on_in_a_child);
    Pool pool({.maximum = 40, .front = GetParam()});
    std::vector<int*> rest;
    while (int* const one = pool.acquire_raw()) rest.push_back(one);
    g_waiter.pool = &pool, g_waiter.held = rest.back();
    rest.pop_back();
    std::thread([main = getpid()] {
      while (!main_thread_sleeps()) sched_yield();
      kill(main, SIGUSR1);
    }).detach();
    const bool got = pool.acquire_raw_for(Pool::kForEver) == g_waiter.held;
    g_waiter.other.join();
    // Nobody waits any more: magazines are open, and keep what they are given.
    pool.release(g_waiter.held);
    const auto spills = pool.statistics().spills;
    for (int i = 0; i < 10; ++i) pool.release(pool.acquire_raw());
    const bool kept = GetParam() == pool_front::none || pool.statistics().spills == spills;
    _exit(got ? kept ? 0 : 2 : 1);
  }
  EXPECT_EQ(WEXITSTATUS(status_of(child)), 0) << "14: it slept on; 2: magazines stayed shut";
}

}  // namespace
}  // namespace mortise
