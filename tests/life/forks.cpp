// Forks while many threads allocate: forks [ROUNDS]. Each child frees what it inherited, allocates, starts threads,
// forks again.
#include <sys/wait.h>

#include <atomic>
#include <thread>
#include <vector>

#include "life.hpp"

namespace {

constexpr unsigned kThreads = 8;
std::atomic<bool> stop{false};

void expect_child_ok(pid_t child) {
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child);
  if (!WIFEXITED(status) || WEXITSTATUS(status)) {
    dprintf(2, "forks: a child ended with status %x\n", status);
    _exit(1);
  }
}

void live_in_child(life::Churn& inherited, unsigned generation) {
  alarm(300);  // a child that hangs is killed and seen
  inherited.steps(500);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 3; ++i)
    threads.emplace_back([i] {
      life::Churn churn(i);
      churn.steps(500);
      churn.end();
    });
  for (auto& t : threads) t.join();
  if (generation) {
    const pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
      live_in_child(inherited, generation - 1);
      _exit(0);
    }
    expect_child_ok(child);
  }
  inherited.end();
  free(malloc(5 << 20));
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned rounds = argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 25;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i)
    threads.emplace_back([i] {
      life::Churn churn(i + 100);
      while (!stop) churn.step();
      churn.end();
    });
  life::Churn mine(7);
  for (unsigned round = 0; round < rounds; ++round) {
    mine.steps(50);
    const pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
      live_in_child(mine, round % 5 == 0 ? 2 : 0);
      _exit(0);
    }
    expect_child_ok(child);
  }
  stop = true;
  for (auto& t : threads) t.join();
  mine.end();
}
