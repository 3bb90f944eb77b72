// If this failed, a program that works in batches would miss at every few of its blocks, or one that does not would have many times
// what it needs lie in caches.
#include "mortise/cache/swing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mortise::test {
namespace {

constexpr unsigned kLimit = 20, kFew = 254;  // of the magazine that asks
constexpr int kMiss = 10;                      // blocks
constexpr unsigned kNear = 100'000;

void go(Swing& s, int blocks, int way, int miss = kMiss, unsigned limit = kLimit) {
  s.miss_at(limit);
  for (; blocks > 0; blocks -= miss) s.count(way * std::min(blocks, miss));
}
void swing(Swing& s, int blocks, int times = 1, int miss = kMiss) {
  while (times--) go(s, blocks, 1, miss), go(s, blocks, -1, miss);
}
/// A batch of neighbours goes home, or one of blocks far apart.
void go_home(Swing& s, bool in_order, int times = 1) {
  std::vector<std::byte*> batch;
  for (std::uintptr_t i = 1; i <= 127; ++i) batch.push_back(reinterpret_cast<std::byte*>(in_order ? i * 48 : i << 20));
  while (times--) s.note_order(batch.data(), static_cast<unsigned>(batch.size()));
}
unsigned wish(const Swing& s) { return std::max(s.share(kFew), s.steady(kLimit)); }

unsigned swings_until_steady(Swing& s, int blocks) {
  unsigned n = 0;
  while (n < 100 && wish(s) < static_cast<unsigned>(blocks)) swing(s, blocks), ++n;
  return n;
}

TEST(Swing, WishesAShareOfTheLongerOfTwo) {
  Swing s{};
  swing(s, 960);
  EXPECT_EQ(wish(s), 40u);
  s.count(kMiss);
  EXPECT_EQ(wish(s), 40u) << "the one before was as long, whatever comes of this";
  Swing shorter{};
  swing(shorter, 30);
  EXPECT_EQ(wish(shorter), 4u);
  swing(shorter, 20);
  EXPECT_EQ(wish(shorter), 0u);
}

TEST(Swing, IsSteadyAfterSixteenThatWereAlike) {
  Swing s{};
  const unsigned needed = swings_until_steady(s, 100);
  EXPECT_GE(2 * needed, 16u);
  EXPECT_LE(2 * needed, 20u);
  EXPECT_EQ(wish(s), 100 + kLimit) << "what does not miss since the magazine has it counts, too";
}

TEST(Swing, IsAlikeToAnEighthAndAMiss) {
  const auto is_steady = [](int longer) {
    Swing s{};
    for (int i = 0; i < 50; ++i) swing(s, 200), swing(s, longer);
    return wish(s) >= 200;
  };
  EXPECT_TRUE(is_steady(220));
  EXPECT_TRUE(is_steady(230));
  EXPECT_FALSE(is_steady(240));
}

TEST(Swing, ASingleMissEachWaySaysNothing) {
  Swing s{};
  swing(s, 100, 100, 100);
  EXPECT_EQ(wish(s), 4u);
}

/// Once a magazine holds more, less goes down.
TEST(Swing, StaysSteadyWhereItSeemsShorter) {
  Swing s{};
  swings_until_steady(s, 100);
  for (int i = 0; i < 20; ++i) {
    swing(s, 60);
    EXPECT_GE(wish(s), 60u) << i;
  }
}

TEST(Swing, IsSteadyNoMoreWhereNoneIsLikeTheLast) {
  Swing s{};
  swing(s, 100, 100);
  for (const int n : {300, 60, 400}) swing(s, n);
  EXPECT_EQ(wish(s), 400u / 24);
}

TEST(Swing, HoldsAllOfOneThatReturned) {
  Swing s{};
  go_home(s, true);
  go(s, 900, 1);
  EXPECT_EQ(s.returning(kLimit, kFew, kNear), 0u) << "it may be all that the program ever takes";
  go(s, 600, -1);
  EXPECT_EQ(s.returning(kLimit, kFew, kNear), 0u) << "it may return further";
  s.count(kMiss);
  EXPECT_EQ(s.returning(kLimit, kFew, kNear), kLimit + 600 + 150);
  go(s, 600, -1, kMiss, 770), go(s, 600, 1, kMiss, 770), s.count(-kMiss);
  EXPECT_EQ(s.returning(770, kFew, kNear), 770 + 600 + 150u);
  go(s, 30, 1), go(s, 30, -1), s.count(kMiss);
  EXPECT_EQ(s.returning(1520, kFew, kNear), 1520u) << "what it has learnt stays";
  s.forget();
  go_home(s, true);
  EXPECT_EQ(s.returning(kLimit, kFew, kNear), 0u);
}

TEST(Swing, WhatTheMagazineGrewByAmidASwingCountsOnce) {
  Swing s{};
  go_home(s, true);
  go(s, 600, 1), go(s, 600, -1);
  go(s, 300, 1), go(s, 300, 1, kMiss, 600);  // it has grown, and is still empty: all of them missed
  s.count(-kMiss);
  EXPECT_EQ(s.returning(600, kFew, kNear), kLimit + 600 + 150);
}

TEST(Swing, HoldsNothingOfOneThatReturnedInNoOrder) {
  Swing s{};
  const auto returning = [&] {
    for (int i = 0; i < 2; ++i) go(s, 900, 1), go(s, 900, -1);
    s.count(kMiss);
    return s.returning(kLimit, kFew, kNear) != 0;
  };
  EXPECT_FALSE(returning()) << "nobody has looked";
  go_home(s, false, 100);
  EXPECT_FALSE(returning());
  go_home(s, true, 4);
  EXPECT_FALSE(returning()) << "some batches lie in order by accident";
  go_home(s, true, 20);
  EXPECT_TRUE(returning());
  go_home(s, false, 4);
  EXPECT_TRUE(returning());
  go_home(s, false, 20);
  EXPECT_FALSE(returning()) << "what it held goes home";
  s.forget();
  go_home(s, true);
  EXPECT_TRUE(returning()) << "starts anew";
}

TEST(Swing, HoldsNothingOnceOneWasLongerThanTheSecondCacheHolds) {
  Swing s{};
  go_home(s, true);
  const auto returning = [&](int blocks, unsigned near) {
    for (int i = 0; i < 2; ++i) go(s, blocks, 1), go(s, blocks, -1);
    s.count(kMiss);
    return s.returning(kLimit, kFew, near);
  };
  EXPECT_EQ(returning(600, 1000), kLimit + 600 + 150);
  EXPECT_EQ(returning(1200, 1000), 0u);
  EXPECT_EQ(returning(600, 1000), 0u) << "there will be such a one again";
  s.forget();
  go_home(s, true);
  EXPECT_EQ(returning(600, 1000), kLimit + 600 + 150) << "starts anew";
}

TEST(Swing, AShortBatchHasAnOrderToo) {
  std::byte* const near[3] = {reinterpret_cast<std::byte*>(48), reinterpret_cast<std::byte*>(96), reinterpret_cast<std::byte*>(1 << 20)};
  const auto returning = [&](unsigned first, unsigned n) {
    Swing s{};
    s.note_order(near + first, n);
    for (int i = 0; i < 2; ++i) go(s, 900, 1), go(s, 900, -1);
    return s.returning(kLimit, kFew, kNear) != 0;
  };
  EXPECT_FALSE(returning(0, 0));
  EXPECT_FALSE(returning(0, 1)) << "a block alone has none";
  EXPECT_TRUE(returning(0, 2));
  EXPECT_FALSE(returning(1, 2));
  EXPECT_TRUE(returning(0, 3));
}

TEST(Swing, ReturnsOnlyWhereBothWaysAreLong) {
  const auto returning = [](int there, int back, unsigned limit) {
    Swing s{};
    go_home(s, true);
    for (int i = 0; i < 50; ++i) go(s, there, 1), go(s, back, -1);
    return s.returning(limit, kFew, kNear) != 0;
  };
  EXPECT_TRUE(returning(260, 260, 500));
  EXPECT_FALSE(returning(250, 250, 20)) << "shorter than what any magazine holds";
  EXPECT_FALSE(returning(260, 260, 600)) << "not half of what this one could hold";
  EXPECT_FALSE(returning(20'000, 40, 500));
  EXPECT_FALSE(returning(40, 20'000, 500));
}

/// It takes or frees a block as it happens, and misses by batches: with the magazine that holds this much it hardly ever misses.
TEST(Swing, HoldsLittleForAProgramThatWalksAtRandom) {
  Swing s{};
  go_home(s, true);
  unsigned limit = kFew, in = limit / 2;
  std::uint64_t random = 1;
  for (int i = 0; i < 4'000'000; ++i) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const bool takes = random >> 63;
    if (takes ? in == 0 : in == limit) {
      s.miss_at(limit);
      limit = std::min(2 * limit, std::max(limit, s.returning(limit, kFew, kNear)));
      const unsigned batch = std::min(limit / 2, 127u);
      s.count(takes ? static_cast<int>(batch) : -static_cast<int>(batch));
      in = takes ? batch : limit - batch;
    }
    in += takes ? -1u : 1u;
  }
  EXPECT_LE(limit, 4096u);
}

TEST(Swing, ForgetsAll) {
  Swing s{}, fresh{};
  swing(s, 100, 50);
  s.forget();
  EXPECT_EQ(wish(s), 0u);
  EXPECT_EQ(swings_until_steady(s, 100), swings_until_steady(fresh, 100));
}

TEST(Swing, CountsAMillionAndNoMore) {
  Swing s{};
  for (int i = 0; i < 30; ++i) s.count(100'000);
  EXPECT_EQ(s.share(~0u), Swing::kMost / 24);
  EXPECT_EQ(s.share(kFew), kFew);
}

}  // namespace
}  // namespace mortise::test
