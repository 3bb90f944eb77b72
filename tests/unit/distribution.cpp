// If this failed, threads would share pools that could be apart, or ask for a pool that does not exist.
#include "mortise/policy/distribution.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <memory>
#include <set>
#include <vector>

#include "mortise/backbone/slab.hpp"
#include "mortise/backbone/sub_heaps.hpp"
#include "mortise/cache/core_cache.hpp"
#include "mortise/cache/span_cache.hpp"
#include "mortise/source/mmap_heap.hpp"
#include "mortise/source/shared_heap.hpp"
#include "tests/support/stage.hpp"

namespace mortise::test {
namespace {

template <DistributionRule Rule>
unsigned ask(std::uint32_t number, unsigned count) {
  const os::RseqArea none;
  return pool_of<Rule>({none, number, number}, count);
}

TEST(Distribution, NamesAPoolThatExists) {
  for (const unsigned count : {1u, 2u, 3u, 7u, 64u, 1000u})
    for (const std::uint32_t number : {0u, 1u, 5u, 4095u, 0x7fff'ffffu, 0xffff'ffffu}) {
      EXPECT_LT(ask<by_thread_in_turn>(number, count), count);
      EXPECT_LT(ask<by_thread_hash>(number, count), count);
      EXPECT_LT(ask<by_core>(number, count), count);
    }
}

TEST(Distribution, InTurnGivesEachThreadItsOwnPoolWhileThereAreEnough) {
  std::set<unsigned> pools;
  for (std::uint32_t turn = 0; turn < 16; ++turn) EXPECT_TRUE(pools.insert(ask<by_thread_in_turn>(turn, 16)).second);
  EXPECT_EQ(ask<by_thread_in_turn>(16, 16), 0u) << "and then begins again";
}

TEST(Distribution, HashedIdsInARowSpreadEvenly) {
  constexpr unsigned kPools = 8, kEach = 64;
  for (const std::uint32_t first : {1u, 1000u, 65'530u, 4'000'000u}) {
    unsigned threads[kPools] = {};
    for (std::uint32_t id = first; id < first + kPools * kEach; ++id) ++threads[ask<by_thread_hash>(id, kPools)];
    for (const unsigned n : threads) EXPECT_NEAR(n, kEach, 3) << "ids from " << first;
  }
}

TEST(Distribution, ByCoreFollowsTheThread) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(ask<by_core>(0, 1024), static_cast<unsigned>(cpu) % 1024) << "where the kernel says nothing by itself";
  }
  sched_setaffinity(0, sizeof allowed, &allowed);
}

template <DistributionRule Rule>
using Shared = Stack<Layers<SubHeaps<fit::BestFit, Rule>, SharedHeap<>>>;

/// Sub-heaps are gigabytes apart, small blocks of one of them are not.
template <DistributionRule Rule>
bool shares_a_sub_heap(unsigned threads) {
  auto heap = std::make_unique<Shared<Rule>>();
  EXPECT_TRUE(heap->start(os::read_facts(&own_area)));
  std::set<std::uintptr_t> places;
  std::vector<typename Shared<Rule>::Thread> all(threads);
  bool shares = false;
  for (auto& t : all) {
    heap->attach(t);
    const auto at = reinterpret_cast<std::uintptr_t>(heap->allocate(t, {.size = 100}).ptr);
    for (const std::uintptr_t other : places) shares |= (at > other ? at - other : other - at) < 1_MiB;
    places.insert(at);
  }
  return shares;
}

TEST(Distribution, DecidesWhichSubHeapServesAThread) {
  EXPECT_FALSE(shares_a_sub_heap<by_thread_in_turn>(8));
  EXPECT_TRUE(shares_a_sub_heap<by_thread_hash>(8)) << "eight records of one thread have one id";
  cpu_set_t allowed, one;
  sched_getaffinity(0, sizeof allowed, &allowed);
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  sched_setaffinity(0, sizeof one, &one);
  EXPECT_TRUE(shares_a_sub_heap<by_core>(8)) << "they run on one core";
  sched_setaffinity(0, sizeof allowed, &allowed);
}

template <DistributionRule Rule>
using Cached = Stack<Layers<CoreCache<64_KiB, Rule>, Slab<classes::Geometric<4, 32_KiB>>, SpanCache<>, PageIndex, MmapHeap<>>>;

/// What the first thread gave back: does a second one on the same core hit on it?
template <DistributionRule Rule>
bool hits_what_another_gave_back() {
  auto heap = std::make_unique<Cached<Rule>>();
  os::Facts facts = os::read_facts(&own_area);
  EXPECT_TRUE(heap->start(facts));
  typename Cached<Rule>::Thread first{}, second{};
  own_area.index = 0;
  heap->attach(first);
  heap->release(first, heap->allocate(first, {.size = 48}));
  own_area.index = 0;  // the second thread has an area of its own
  heap->attach(second);
  const bool hit = static_cast<bool>(heap->allocate_hit(second, {.size = 48}));
  own_area.index = 0;
  return hit;
}

TEST(Distribution, DecidesWhoseMagazinesServeACall) {
  EXPECT_FALSE(hits_what_another_gave_back<by_thread_in_turn>());
  cpu_set_t allowed, one;
  sched_getaffinity(0, sizeof allowed, &allowed);
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  sched_setaffinity(0, sizeof one, &one);
  const bool restarts = os::find_rseq_area(&own_area).is_kernels;
  EXPECT_EQ(hits_what_another_gave_back<by_core>(), restarts) << "where nothing restarts sections, each thread has its own";
  sched_setaffinity(0, sizeof allowed, &allowed);
}

}  // namespace
}  // namespace mortise::test
