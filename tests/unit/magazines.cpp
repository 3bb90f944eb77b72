// If this fails, the magazines of cores and those of threads disagree about which blocks did not fit, and whoever gives them
// loses some and hands others out twice.
#include "mortise/os/rseq.hpp"
#include "mortise/pool/locked_magazine.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace mortise {
namespace {

thread_local os::OwnArea own_area{};

/// A magazine that any core finds.
struct OfCores {
  static constexpr unsigned kTable = os::kCpusMax;
  os::Magazine magazine{};
  std::vector<std::byte*> table = std::vector<std::byte*>(kTable, reinterpret_cast<std::byte*>(&magazine));
  os::RseqArea area = os::find_rseq_area(&own_area);

  explicit OfCores(unsigned limit) { magazine.set_limit(limit); }
  unsigned give(std::byte* const* in, unsigned n) { return os::magazine_give(area, table.data(), 0, in, n); }
  unsigned take(std::byte** out, unsigned n) { return os::magazine_take(area, table.data(), 0, out, n); }
  std::byte* pop() { return os::magazine_pop(area, table.data(), 0); }
};

struct OfThreads {
  pools::LockedMagazine magazine{};
  explicit OfThreads(unsigned limit) {
    std::byte* none[pools::LockedMagazine::kSlots];
    magazine.set_limit(limit, none);
  }
  unsigned give(std::byte* const* in, unsigned n) { return magazine.give(in, n); }
  unsigned take(std::byte** out, unsigned n) { return magazine.take(out, n); }
  std::byte* pop() { return magazine.pop(); }
};

template <class Kind> struct Magazines : testing::Test {};
using Kinds = testing::Types<OfCores, OfThreads>;
TYPED_TEST_SUITE(Magazines, Kinds);

std::vector<std::byte*> blocks(unsigned from, unsigned to) {
  static std::byte room[64];
  std::vector<std::byte*> some;
  for (unsigned i = from; i < to; ++i) some.push_back(room + i);
  return some;
}

TYPED_TEST(Magazines, WhatDoesNotFitIsTheFront) {
  for (unsigned before = 0; before <= 5; ++before) {
    for (unsigned n = 0; n <= 9; ++n) {
      TypeParam magazine(5);
      const auto old = blocks(0, before), in = blocks(before, before + n);
      ASSERT_EQ(magazine.give(old.data(), before), before);
      const unsigned kept = magazine.give(in.data(), n);
      ASSERT_EQ(kept, std::min(n, 5 - before));
      for (unsigned i = n - kept; i < n; ++i) ASSERT_EQ(magazine.pop(), in[i]) << before << " and " << n;
      for (unsigned i = 0; i < before; ++i) ASSERT_EQ(magazine.pop(), old[i]) << before << " and " << n;
      ASSERT_EQ(magazine.pop(), nullptr);
    }
  }
}

TYPED_TEST(Magazines, TheNewestAreTakenTheNewestOfThemLast) {
  for (unsigned n = 0; n <= 7; ++n) {
    TypeParam magazine(5);
    const auto in = blocks(0, 5);
    magazine.give(in.data(), 5);
    std::byte* out[8] = {};
    const unsigned taken = magazine.take(out, n);
    ASSERT_EQ(taken, std::min(n, 5u));
    for (unsigned i = 0; i < taken; ++i) ASSERT_EQ(out[taken - 1 - i], in[i]);
    ASSERT_EQ(magazine.pop(), taken < 5 ? in[taken] : nullptr);
  }
}

}  // namespace
}  // namespace mortise
