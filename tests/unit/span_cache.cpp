// If this failed, a program with locked memory would get "zeroed" blocks full of old bytes, a child of a fork would lose spans
// that its parent was just giving back, or a request would be refused although a free span could serve it.
#include "mortise/cache/span_cache.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <vector>

#include "mortise/source/mmap_heap.hpp"
#include "tests/support/recording.hpp"
#include "tests/support/stage.hpp"

namespace mortise::test {
namespace {

std::function<bool(std::byte*, std::size_t)> on_purge;

/// A source whose purging a test decides about.
struct PurgesAsTold {
  template <Heap Below> class Over : public Recording::Over<Below> {
   public:
    bool purge_pages(std::byte* at, std::size_t n) noexcept { return on_purge(at, n); }
  };
};
using H = Stack<Layers<SpanCache<>, PageIndex, PurgesAsTold, MmapHeap<>>>;

void expect_adds_up(H& h, std::size_t live) {
  Usage u;
  h.tell(u);
  EXPECT_EQ(u.live, live);
  EXPECT_EQ(u.mapped, u.live + u.dirty + u.purged);
}

TEST(SpanCache, ClearsPagesThatTheSystemWouldNotTake) {
  on_purge = [](std::byte*, std::size_t) { return false; };  // as for a process that called mlockall
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    const Block b = h.allocate(t, {.size = 1_MiB});
    std::memset(b.ptr, 0x5a, b.size);
    h.release(t, b);
    EXPECT_EQ(h.trim(t), 0u) << "nothing was given back, and it ends";
    expect_adds_up(h, 0);
    const Block again = h.allocate(t, {.size = 1_MiB, .zeroed = true});
    ASSERT_EQ(again.ptr, b.ptr);
    for (std::size_t i = 0; i < again.size; ++i) ASSERT_EQ(again.ptr[i], std::byte{0});
  });
}

TEST(SpanCache, ChildOfAForkKeepsWhatTheParentWasPurging) {
  int status = -1;
  Stage<H> stage;
  on_purge = [&](std::byte* at, std::size_t n) {
    if (status != -1) return os::purge(at, n);
    if (const pid_t child = fork(); child) {
      waitpid(child, &status, 0);
      return os::purge(at, n);
    }
    H& h = stage.heap();
    h.reset_after_fork();
    Usage u;
    h.tell(u);
    h.audit();
    _exit(u.live == 0 && u.mapped == u.dirty + u.purged ? 0 : 1);
  };
  stage.as(0, [](H& h, auto& t) {
    h.release(t, h.allocate(t, {.size = 2_MiB}));
    h.trim(t);
    expect_adds_up(h, 0);
  });
  EXPECT_EQ(status, 0) << "the child has lost a span";
}

TEST(SpanCache, LooksAtEverySpanBeforeItSaysNo) {
  on_purge = os::purge;
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    constexpr std::size_t kGranule = H::kGranule;
    // Free spans of one bin: the one that fits first, then more that are too small than are looked at in a hurry.
    std::vector<Block> freed, walls;
    freed.push_back(h.allocate(t, {.size = 39 * kGranule}));
    walls.push_back(h.allocate(t, {.size = kGranule}));
    for (int i = 0; i < 30; ++i) {
      freed.push_back(h.allocate(t, {.size = 33 * kGranule}));
      walls.push_back(h.allocate(t, {.size = kGranule}));
    }
    recording_of(h).is_empty = true;
    std::vector<Block> rest;  // what growth left over, so that nothing large lies free but what we put there
    while (const Block b = h.allocate(t, {.size = kGranule})) rest.push_back(b);
    for (const Block b : freed) h.release(t, b);
    const Block b = h.allocate(t, {.size = 39 * kGranule});
    EXPECT_EQ(b.ptr, freed[0].ptr);
    expect_adds_up(h, b.size + walls.size() * kGranule + rest.size() * kGranule);
  });
}

TEST(SpanCache, PurgesOnlyWhatHasBeenFreeLongEnough) {
  on_purge = os::purge;
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    h.release(t, h.allocate(t, {.size = 1_MiB}));
    const std::size_t dirty = h.idle_bytes();
    EXPECT_GE(dirty, 1_MiB);
    EXPECT_EQ(h.purge_older_than(0), 0u);
    EXPECT_EQ(h.idle_bytes(), dirty);
    EXPECT_EQ(h.purge_older_than(~std::uint64_t{0}), dirty);
    EXPECT_EQ(h.idle_bytes(), 0u);
  });
}

/// Of 8 MiB all but 1 MiB is given back, in a heap that is told to by `tell`.
template <class H, class Tell> void expect_end_goes_back(Tell&& tell) {
  on_purge = os::purge;
  Stage<H> stage;
  stage.as(0, [&](H& h, auto& t) {
    tell(h);
    const Block b = h.allocate(t, {.size = 8_MiB});
    std::memset(b.ptr, 0x5a, b.size);
    const Block shorter = h.resize_in_place(t, b, 1_MiB);
    EXPECT_EQ(shorter.ptr, b.ptr);
    EXPECT_EQ(shorter.size, 1_MiB);
    EXPECT_EQ(h.idle_bytes(), 0u);
    EXPECT_EQ(shorter.ptr[1_MiB - 1], std::byte{0x5a});
    const Block behind = h.allocate(t, {.size = 7_MiB, .zeroed = true});
    ASSERT_EQ(behind.ptr, shorter.end());
    EXPECT_EQ(behind.ptr[0], std::byte{0});
    h.audit();
  });
}

TEST(SpanCache, WhatABlockGivesBackGoesAtOnceWhereAReleasedOneDoes) {
  expect_end_goes_back<H>([](H& h) { h.set_purge_ms(0); });
  expect_end_goes_back<H>([](H& h) { h.set_soft_limit_bytes(512_KiB); });
  using Capped = Stack<Layers<SpanCache<purge::ByteCap<64_KiB>>, PageIndex, MmapHeap<>>>;
  expect_end_goes_back<Capped>([](Capped&) {});
}

/// Counts how often it was taken.
struct CountedLock : FutexLock {
  static inline unsigned taken = 0;
  void lock() noexcept { ++taken, FutexLock::lock(); }
};

TEST(SpanCache, ABlockThatGrowsNoFurtherThanItReachesTakesNoLock) {
  using Counted = Stack<Layers<SpanCache<purge::AfterDelay<>, huge::Never, CountedLock>, PageIndex, MmapHeap<>>>;
  Stage<Counted> stage;
  stage.as(0, [](Counted& h, auto& t) {
    const Block b = h.allocate(t, {.size = 70'000});
    EXPECT_EQ(b.size, 73'728u) << "to the page";
    CountedLock::taken = 0;
    for (const std::size_t n : {70'001u, 73'728u, 66'000u}) EXPECT_EQ(h.resize_in_place(t, b, n).size, b.size);
    EXPECT_EQ(CountedLock::taken, 0u);
    EXPECT_EQ(h.resize_in_place(t, b, 73'729).size, 77'824u);
    EXPECT_EQ(CountedLock::taken, 1u);
  });
}

TEST(SpanCache, ReportsAPointerIntoABlock) {
  on_purge = os::purge;
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    const Block b = h.allocate(t, {.size = 1_MiB});
    EXPECT_DEATH(h.release(t, {b.ptr + H::kGranule, H::kGranule}), "invalid_free");
    h.release(t, b);
    EXPECT_DEATH(h.release(t, b), "fault=");
  });
}

}  // namespace
}  // namespace mortise::test
