// If this fails, a program whose signal handlers use a pool hangs, or loses an object, when a signal comes amid a call on that pool: the
// handler runs at each instruction of calls that promise to wait for nobody.
//
// Where the kernel restarts sections a section would start again at each instruction, for ever: only the magazines without them are here.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "mortise/pool.hpp"
#include "tests/support/each_instruction.hpp"

namespace mortise {
namespace {

#if defined(__x86_64__)

using Pool = distributed_pool<int>;

/// A pool, what the program has of it, and a handler that has some of it for a while. Of the pool one half is the program's; the other
/// is more than a magazine and a chain hold, so that no call has to look into magazines. Magazines are small: chains are quickly made.
struct Interrupted {
  const unsigned cpus = os::read_facts(pools::own_area()).cpus;
  const std::uint32_t maximum = cpus > 1 ? 16 * cpus : 300;
  std::vector<int*> held = std::vector<int*>(maximum / 2);
  std::optional<Pool> pool;
  unsigned wrong = 0, handled = 0;

  void start(pool_front front) { pool.emplace(pool_options{.maximum = maximum, .front = front}); }
  void take(unsigned first, unsigned n) {
    for (unsigned i = first; i < first + n; ++i) {
      held[i] = pool->acquire_raw();
      *held[i] = static_cast<int>(i);
    }
  }
  void give(unsigned first, unsigned n) {
    for (unsigned i = first; i < first + n; ++i) {
      wrong += *held[i] != static_cast<int>(i);
      pool->release(held[i]);
    }
  }
  void handle() {
    int* mine[3];
    for (int*& one : mine) {
      one = pool->acquire_raw();
      wrong += !one;
      if (one) *one = -1;
    }
    wrong += pool->statistics().created > maximum;
    for (int* one : mine) {
      wrong += one && *one != -1;
      if (one) pool->release(one);
    }
    ++handled;
  }
  /// The program has nothing any more: each object is to be had once.
  bool is_whole() {
    const pool_statistics s = pool->statistics();
    unsigned n = 0;
    while (pool->acquire_raw()) ++n;
    return !wrong && s.in_use == 0 && n == maximum;
  }
};

class Signals : public testing::TestWithParam<pool_front> {
 protected:
  void SetUp() override {
    ASSERT_FALSE(pools::find_area().is_kernels) << "GLIBC_TUNABLES=glibc.pthread.rseq=0 turns the kernel's sections off";
  }
  Interrupted one;
};
std::string name_of_front(const testing::TestParamInfo<pool_front>& front) {
  const char* const names[] = {"automatic", "cores", "threads", "cpus", "none"};
  return names[static_cast<int>(front.param)];
}
INSTANTIATE_TEST_SUITE_P(Every, Signals, testing::Values(pool_front::threads, pool_front::cpus, pool_front::none), name_of_front);

TEST_P(Signals, AmidTheFirstCallOfAThread) {
  const unsigned instructions = test::EachInstruction::of(
      [&] {
        EXPECT_TRUE(!one.pool || one.is_whole()) << "after " << one.handled;
        one.start(GetParam());
      },
      [&] { one.take(0, 1), one.give(0, 1); }, [&] { one.handle(); });
  EXPECT_TRUE(one.is_whole());
  EXPECT_GT(instructions, 100u);
}

TEST_P(Signals, AmidTheFirstCallThatIsARelease) {
  const unsigned instructions = test::EachInstruction::of(
      [&] {
        EXPECT_TRUE(!one.pool || one.is_whole()) << "after " << one.handled;
        one.start(GetParam());
        std::thread([&] { one.take(0, 1); }).join();
      },
      [&] { one.give(0, 1); }, [&] { one.handle(); });
  EXPECT_TRUE(one.is_whole());
  EXPECT_GT(instructions, 50u);
}

TEST_P(Signals, AmidARefill) {
  const auto all = static_cast<unsigned>(one.held.size());
  one.start(GetParam());
  one.take(0, all), one.give(0, all);
  const unsigned instructions = test::EachInstruction::of([&] { one.pool->trim(); }, [&] { one.take(0, 1), one.give(0, 1); },
                                                          [&] { one.handle(); });
  EXPECT_TRUE(one.is_whole());
  EXPECT_GT(instructions, 100u);
}

TEST_P(Signals, AmidASpill) {
  const auto all = static_cast<unsigned>(one.held.size());
  one.start(GetParam());
  unsigned given = 0;
  const auto give = [&](unsigned n) { one.give(given, n), given += n; };
  const auto give_to_the_next_spill = [&] {
    const unsigned from = given;
    for (const auto spills = one.pool->statistics().spills; one.pool->statistics().spills == spills;) give(1);
    return given - from;
  };
  const auto begin = [&] {
    one.take(0, all);
    given = 0;
    give_to_the_next_spill();
  };
  begin();
  const unsigned period = give_to_the_next_spill();
  give(all - given);
  const unsigned instructions = test::EachInstruction::of([&] { begin(), give(period - 1); }, [&] { one.give(given, 1); },
                                                          [&] { one.handle(), one.give(given + 1, all - given - 1); });
  one.give(given + 1, all - given - 1);
  EXPECT_TRUE(one.is_whole());
  EXPECT_GT(instructions, 50u);
}

/// Goes on in a child, and is gone.
void go_on_in_a_child() {
  if (fork() != 0) _exit(0);
}

TEST_P(Signals, AmidTheFirstCallInTheChildOfAFork) {
  struct Result {
    unsigned instructions;
    bool whole;
  };
  auto* const result = static_cast<Result*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(result, MAP_FAILED);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    one.start(GetParam());
    one.take(0, 2);
    one.give(1, 1);
    result->whole = true;
    result->instructions = test::EachInstruction::of(
        [&] { go_on_in_a_child(); }, [&] { one.take(1, 1), one.give(1, 1); }, [&] { one.handle(); });
    one.give(0, 1);
    result->whole = one.is_whole();
    _exit(0);
  }
  close(ends[1]);
  char unused;
  EXPECT_EQ(read(ends[0], &unused, 1), 0) << "until the last of them has ended";
  close(ends[0]);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(result->whole);
  EXPECT_GT(result->instructions, 100u);
  munmap(result, 4096);
}

#endif

}  // namespace
}  // namespace mortise
