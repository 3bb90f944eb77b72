// If this failed, a program that is read in the middle of a change would seem to hold nothing.
#include "mortise/core/usage.hpp"

#include <gtest/gtest.h>

namespace mortise::test {
namespace {

TEST(Usage, SumsBelowZeroAreReadAgain) {
  unsigned readings = 0;
  Usage u;
  ClassUsage classes[2];
  read_whole(u, [&](Usage& fresh) {
    classes[1] = {};
    fresh.classes = classes;
    fresh.classes_max = 2;
    fresh.mapped = 100'000;
    fresh.live = 64;
    fresh.in_cache(0, 1, 64, ++readings < 4 ? 2 : 1);
  });
  EXPECT_EQ(readings, 4u);
  EXPECT_EQ(u.live, 0u);
  EXPECT_EQ(u.cached, 64u) << "what was read before must not be in it";
}

TEST(Usage, WhatStaysBelowZeroIsNothing) {
  unsigned readings = 0;
  Usage u;
  read_whole(u, [&](Usage& fresh) {
    ++readings;
    fresh.mapped = 1000;
    fresh.live = fresh.large = std::size_t{0} - 5;
  });
  EXPECT_EQ(readings, 5u);
  EXPECT_EQ(u.live, 0u);
  EXPECT_EQ(u.large, 0u);
}

TEST(Usage, SumsAboveTheWholeEndThere) {
  Usage u;
  read_whole(u, [](Usage& fresh) {
    fresh.mapped = 1000;
    fresh.live = fresh.large = 1001;
  });
  EXPECT_EQ(u.live, 1000u);
  EXPECT_EQ(u.large, 1000u);
}

}  // namespace
}  // namespace mortise::test
