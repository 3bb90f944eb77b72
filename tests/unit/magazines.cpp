// If this fails, the magazines of cores and those of threads disagree about which blocks did not fit, and whoever gives them
// loses some and hands others out twice.
#include "mortise/os/rseq.hpp"
#include "mortise/pool/locked_magazine.hpp"
#include "mortise/pool/magazines.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace mortise {
namespace {

thread_local os::OwnArea own_area{};

/// A magazine that any core finds.
struct OfCores {
  static constexpr unsigned kTable = os::kCpusMax;
  using Rack = os::Rack<1>;
  Rack rack{};
  std::byte* slots[8];
  std::vector<std::byte*> table = std::vector<std::byte*>(kTable, reinterpret_cast<std::byte*>(&rack));
  os::RseqArea area = os::find_rseq_area(&own_area);

  explicit OfCores(unsigned limit) { rack.place(0, slots), rack.set_limit(0, limit); }
  unsigned give(std::byte* const* in, unsigned n) { return Rack::give(area, table.data(), 0, in, n); }
  unsigned take(std::byte** out, unsigned n) { return Rack::take(area, table.data(), 0, out, n); }
  std::byte* pop() { return Rack::pop(area, table.data(), 0); }
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

/// Four magazines that any core finds, of 3 to 6 blocks.
struct Row {
  static constexpr unsigned kCount = 4, kLeast = 3;
  using Rack = os::Rack<kCount>;
  Rack rack = {};
  std::byte* slots[kCount][kLeast + kCount];
  std::vector<std::byte*> table = std::vector<std::byte*>(os::kCpusMax, reinterpret_cast<std::byte*>(&rack));
  os::RseqArea area = os::find_rseq_area(&own_area);

  Row() {
    for (unsigned i = 0; i < kCount; ++i) rack.place(i, slots[i]), rack.set_limit(i, kLeast + i);
  }
  unsigned push_each(const std::vector<std::byte*>& in, const std::vector<std::uint8_t>& numbers) {
    return Rack::push_each(area, table.data(), in.data(), numbers.data(), static_cast<unsigned>(in.size()));
  }
  std::vector<std::byte*> pop_all(unsigned number) {
    std::vector<std::byte*> out;
    while (std::byte* const p = Rack::pop(area, table.data(), number)) out.push_back(p);
    return out;
  }
};

TEST(Magazines, EachBlockGoesToItsOwnUntilOneIsFull) {
  Row row;
  EXPECT_EQ(row.push_each({}, {}), 0u);
  const auto in = blocks(0, 10);
  const std::vector<std::uint8_t> numbers = {2, 0, 3, 0, 2, 0, 1, 0, 1, 1};  // the fourth of number 0 does not fit
  EXPECT_EQ(row.push_each(in, numbers), 7u);
  EXPECT_EQ(row.push_each({in[7]}, {0}), 0u);
  EXPECT_EQ(row.push_each({in[8], in[9]}, {1, 1}), 2u);
  EXPECT_EQ(row.pop_all(0), (std::vector{in[5], in[3], in[1]}));
  EXPECT_EQ(row.pop_all(1), (std::vector{in[9], in[8], in[6]}));
  EXPECT_EQ(row.pop_all(2), (std::vector{in[4], in[0]}));
  EXPECT_EQ(row.pop_all(3), (std::vector{in[2]}));
}

#ifndef MORTISE_THREAD_SANITIZER  // which holds signals back
/// A signal sends a section back to its start: no block is pushed twice for that, and none is left out.
TEST(Magazines, EachBlockIsPushedOnceWhateverInterrupts) {
  static std::atomic<unsigned> signals;
  struct sigaction count = {}, before;
  count.sa_handler = [](int) { ++signals; };
  count.sa_flags = SA_RESTART;
  ASSERT_EQ(sigaction(SIGALRM, &count, &before), 0);
  const itimerval often = {{0, 20}, {0, 20}}, never = {};
  ASSERT_EQ(setitimer(ITIMER_REAL, &often, nullptr), 0);
  Row row;
  const auto in = blocks(0, 12);
  const std::vector<std::uint8_t> numbers = {0, 1, 2, 3, 3, 2, 1, 0, 0, 1, 2, 3};
  unsigned wrong = 0;
  signals = 0;
  for (unsigned round = 0; signals < 300 && round < 100'000'000; ++round) {
    wrong += row.push_each(in, numbers) != 12;
    for (unsigned i = 0; i < Row::kCount; ++i) wrong += row.rack.count(i) != 3;
    for (unsigned i = 0; i < Row::kCount; ++i) row.rack.set_count(i, 0);
  }
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  EXPECT_EQ(wrong, 0u);
  EXPECT_GE(signals, 300u);
}
#endif

/// Statistics glance at magazines while others get their slots: what is empty is never counted as full.
TEST(Magazines, AGlanceAtThoseThatAreBeingMadeSeesNothing) {
  constexpr unsigned kSets = 64, kRounds = 200;
  const std::size_t bytes = pools::Magazines::kTableBytes + kSets * sizeof(pools::Magazines::Set);
  std::unique_ptr<pools::Magazines> pool[kRounds];
  std::atomic<unsigned> made{0}, glancing{0};  // how many pools there are, and whose turn it is
  unsigned wrong = 0;
  std::thread glance([&] {
    for (unsigned round = 0; round < kRounds; ++round) {
      while (made <= 2 * round) std::this_thread::yield();
      glancing = round + 1;
      do wrong += pool[round]->idle() != 0;
      while (made <= 2 * round + 1);
    }
  });
  std::vector<void*> rooms;
  for (unsigned round = 0; round < kRounds; ++round) {
    auto* const room = static_cast<std::byte*>(aligned_alloc(alignof(pools::Magazines::Set), bytes));
    rooms.push_back(std::memset(room, 0, bytes));
    pool[round] = std::make_unique<pools::Magazines>();
    pool[round]->start(room, os::own_rseq_area(&own_area), pool_front::cores, 4);
    own_area.index = kSets - 1;  // so that a glance takes all of them in
    pool[round]->make_own(false);
    ++made;
    while (glancing <= round) std::this_thread::yield();
    for (own_area.index = 0; own_area.index < kSets - 1; ++own_area.index) pool[round]->make_own(false);
    ++made;
  }
  glance.join();
  own_area.index = 0;
  for (void* const room : rooms) std::free(room);
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace mortise
