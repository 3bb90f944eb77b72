// If this failed, the profile would tell of calls that were not made.
#include "mortise/os/unwind.hpp"

#include <gtest/gtest.h>

#include <alloca.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace mortise::test {
namespace {

constexpr unsigned kMost = 60;
using Walker = os::StackWalker<>;
using SmallWalker = os::StackWalker<3>;  // forgets most rules before they are asked for again

struct All {
  Walker* walker;
  SmallWalker* small;
  std::mt19937_64* random;
  int checked = 0;
};

/// What the walkers say from the caller on, against libgcc's unwinder.
[[gnu::noinline]] void compare(All& all) {
  std::uintptr_t seen[3][kMost];
  const auto caller = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  const unsigned depth = Walker::walk_by_tables(seen[0], kMost - 1, caller);
  ASSERT_EQ(all.walker->capture(seen[1], kMost), depth + 1);
  ASSERT_EQ(all.small->capture(seen[2], kMost), depth + 1);
  ASSERT_GT(depth, 2u);
  ASSERT_EQ(seen[0][0], caller);
  for (unsigned i = 0; i < depth; ++i) {
    ASSERT_EQ(seen[0][i], seen[1][i + 1]) << "frame " << i << " of " << depth;
    ASSERT_EQ(seen[0][i], seen[2][i + 1]) << "frame " << i << " of " << depth;
  }
  ++all.checked;
}

// Three functions that call each other, with frames of equal and of changing sizes.
[[gnu::noinline]] void walk_a(All& all, int left);
[[gnu::noinline]] void walk_b(All& all, int left);
[[gnu::noinline]] void walk_c(All& all, int left) {
  auto* volatile room = static_cast<char*>(alloca(16 + (*all.random)() % 200));
  room[0] = 1;
  if (left) ((*all.random)() % 2 ? walk_a : walk_b)(all, left - 1);
  compare(all);
  room[0] = 2;
}
void walk_a(All& all, int left) {
  compare(all);
  for (std::uint64_t i = 0, n = (*all.random)() % 3; left && i < n; ++i) ((*all.random)() % 2 ? walk_b : walk_c)(all, left - 1);
  compare(all);
}
void walk_b(All& all, int left) {
  compare(all);
  if (left) ((*all.random)() % 2 ? walk_a : walk_c)(all, left - 1);
  if (left) walk_a(all, left - 1);
  compare(all);
}

struct Fixture : testing::Test {
  std::unique_ptr<Walker> walker = std::make_unique<Walker>();
  std::unique_ptr<SmallWalker> small = std::make_unique<SmallWalker>();
  std::mt19937_64 random{11};
  All all{walker.get(), small.get(), &random};
};
using StackWalker = Fixture;

TEST_F(StackWalker, SaysWhatTheTablesSay) {
  for (int i = 0; i < 60 && !HasFatalFailure(); ++i) walk_a(all, 1 + i % 12);
  EXPECT_GT(all.checked, 200);
}

/// Deeper than can be told: cut off at the same place.
[[gnu::noinline]] void dive(All& all, int left) {
  compare(all);
  if (left) dive(all, left - 1);
  compare(all);
}
TEST_F(StackWalker, DeepStacksAreCutOff) {
  dive(all, 120);
  EXPECT_EQ(all.checked, 242);
}

TEST_F(StackWalker, FramesOfLibrariesAreWalked) {
  static All* here;
  here = &all;
  int numbers[20];
  for (int i = 0; i < 20; ++i) numbers[i] = i * 7 % 20;
  qsort(numbers, 20, sizeof *numbers, [](const void* a, const void* b) {
    compare(*here);
    return *static_cast<const int*>(a) - *static_cast<const int*>(b);
  });
  EXPECT_GT(all.checked, 20);
}

TEST_F(StackWalker, ASignalsFrameIsLeftToTheTables) {
  static All* here;
  here = &all;
  struct sigaction old, action = {};
  action.sa_handler = [](int) { walk_b(*here, 3); };
  sigaction(SIGUSR1, &action, &old);
  for (int i = 0; i < 3; ++i) raise(SIGUSR1);
  sigaction(SIGUSR1, &old, nullptr);
  EXPECT_GT(all.checked, 10);
}

#ifdef __x86_64__
/// Code that no table tells of: push rbp; mov rbp, rsp; call rsi; pop rbp; ret.
TEST_F(StackWalker, CodeMadeAtRunTimeEndsAWalk) {
  const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd6, 0x5d, 0xc3};
  void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(page, code, sizeof code);
  ASSERT_EQ(mprotect(page, 4096, PROT_READ | PROT_EXEC), 0);
  struct Told {
    Walker* walker;
    std::uintptr_t by_walker[kMost], by_tables[kMost];
    unsigned depth = 0, table_depth = 0;
  } told{.walker = walker.get(), .by_walker = {}, .by_tables = {}};
  auto* const call = reinterpret_cast<void (*)(Told*, void (*)(Told*))>(page);
  for (int i = 0; i < 2; ++i) {
    call(&told, [](Told* t) {
      t->depth = t->walker->capture(t->by_walker, kMost);
      t->table_depth = Walker::walk_by_tables(t->by_tables, kMost, reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)));
    });
    ASSERT_EQ(told.depth, told.table_depth + 1);
    EXPECT_EQ(told.by_walker[1], reinterpret_cast<std::uintptr_t>(page) + 6);
    EXPECT_EQ(memcmp(told.by_walker + 1, told.by_tables, told.table_depth * sizeof(std::uintptr_t)), 0);
  }
  munmap(page, 4096);
}

/// A rule is asked of the tables once, until code was unloaded.
TEST_F(StackWalker, RulesAreRememberedUntilCodeIsUnloaded) {
  for (int i = 0; i < 3; ++i) {
    walk_b(all, 4);
    walker->forget();
  }
  EXPECT_GT(all.checked, 10);
}
#endif

TEST_F(StackWalker, ThreadsShareRules) {
  std::vector<std::thread> threads;
  int checked[12] = {};
  for (int i = 0; i < 12; ++i)
    threads.emplace_back([&, i] {
      std::mt19937_64 own(static_cast<unsigned>(i));
      All mine{walker.get(), small.get(), &own};
      for (int k = 0; k < 20; ++k) walk_b(mine, 6);
      checked[i] = mine.checked;
    });
  for (int i = 0; i < 1000; ++i) walker->forget();
  for (auto& t : threads) t.join();
  for (const int n : checked) EXPECT_GT(n, 40);
}

}  // namespace
}  // namespace mortise::test
