// If this failed, the profile would tell of calls that were not made.
#include "mortise/os/unwind.hpp"

#include <gtest/gtest.h>

#include <alloca.h>

#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace mortise::test {
namespace {

constexpr unsigned kMost = 60;
using Stacks = os::StackMemory<kMost>;

struct Both {
  Stacks* remembering;
  std::mt19937_64* random;
  int checked = 0;
};

/// The same place asked of a memory that has seen other stacks, and of one that has seen none.
[[gnu::noinline]] void compare(Both& both) {
  auto fresh = std::make_unique<Stacks>();
  Stacks* const of[2] = {both.remembering, fresh.get()};
  std::uintptr_t seen[2][kMost];
  unsigned depth[2];
  for (int i = 0; i < 2; ++i) depth[i] = of[i]->capture(seen[i], kMost);  // one call: both return to the same place
  ASSERT_EQ(depth[0], depth[1]);
  ASSERT_GT(depth[0], 3u);
  for (unsigned i = 0; i < depth[0]; ++i) ASSERT_EQ(seen[0][i], seen[1][i]) << "frame " << i << " of " << depth[0];
  ++both.checked;
}

// Three functions that call each other, with frames of equal and of changing sizes.
[[gnu::noinline]] void walk_a(Both& both, int left);
[[gnu::noinline]] void walk_b(Both& both, int left);
[[gnu::noinline]] void walk_c(Both& both, int left) {
  auto* volatile room = static_cast<char*>(alloca(16 + (*both.random)() % 200));
  room[0] = 1;
  if (left) ((*both.random)() % 2 ? walk_a : walk_b)(both, left - 1);
  compare(both);
  room[0] = 2;
}
void walk_a(Both& both, int left) {
  compare(both);
  for (std::uint64_t i = 0, n = (*both.random)() % 3; left && i < n; ++i) ((*both.random)() % 2 ? walk_b : walk_c)(both, left - 1);
  compare(both);
}
void walk_b(Both& both, int left) {
  compare(both);
  if (left) ((*both.random)() % 2 ? walk_a : walk_c)(both, left - 1);
  if (left) walk_a(both, left - 1);
  compare(both);
}

TEST(StackMemory, AnswersAsIfItHadForgottenAll) {
  auto stacks = std::make_unique<Stacks>();
  std::mt19937_64 random(11);
  Both both{stacks.get(), &random};
  for (int i = 0; i < 60 && !testing::Test::HasFatalFailure(); ++i) walk_a(both, 1 + i % 12);
  EXPECT_GT(both.checked, 200);
}

/// Deeper than can be told: cut off at the same place.
[[gnu::noinline]] void dive(Both& both, int left) {
  compare(both);
  if (left) dive(both, left - 1);
  compare(both);
}
TEST(StackMemory, DeepStacksAreCutOffWhereTheyWere) {
  auto stacks = std::make_unique<Stacks>();
  std::mt19937_64 random(1);
  Both both{stacks.get(), &random};
  dive(both, 120);
  EXPECT_EQ(both.checked, 242);
}

TEST(StackMemory, ThreadsThatShareOneDoNotMeetInIt) {
  auto stacks = std::make_unique<Stacks>();
  std::vector<std::thread> threads;
  int checked[24] = {};
  for (int i = 0; i < 24; ++i)
    threads.emplace_back([&, i] {
      std::mt19937_64 random(static_cast<unsigned>(i));
      Both both{stacks.get(), &random};
      for (int k = 0; k < 10; ++k) walk_b(both, 6);
      checked[i] = both.checked;
    });
  for (auto& t : threads) t.join();
  for (const int n : checked) EXPECT_GT(n, 20);
}

}  // namespace
}  // namespace mortise::test
