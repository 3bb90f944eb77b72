// If this failed, a thread would be given memory of another node than its own for good, blocks that one node takes and another frees would
// pile up, or the blocks that a program had before its nodes were known would be nobody's.
#include "mortise/route/per_node.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "mortise/allocators/hslab.hpp"
#include "mortise/guard/size_check.hpp"
#include "mortise/os/pages.hpp"
#include "tests/property/model.hpp"

namespace mortise::test {
namespace {

using H = Stack<HslabPerNodeLayers>;
constexpr std::size_t kGranule = IndexOf<Hslab>::kGranule, kReach = IndexOf<Hslab>::kReachBytes;

/// The first two CPUs that this process may use, each made a node.
struct TwoCpus {
  TwoCpus() {
    cpu_set_t set;
    ::sched_getaffinity(0, sizeof set, &set);
    unsigned found = 0;
    for (int i = 0; i < CPU_SETSIZE && found < 2; ++i)
      if (CPU_ISSET(i, &set)) cpu[found++] = i;
    are_there = found == 2;
    map.count = 2;
    map.of_cpu[cpu[1]] = 1;
  }
  void stay_on(unsigned node) const {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu[node], &set);
    ASSERT_EQ(::sched_setaffinity(0, sizeof set, &set), 0);
  }
  /// Runs `work(node)` on a thread of that node, to its end.
  template <class Work> void on(unsigned node, Work&& work) const {
    std::thread([&] {
      stay_on(node);
      work();
    }).join();
  }
  int cpu[2] = {};
  bool are_there;
  os::NodeMap map;
};

/// With the kernel's areas (in TSan's and ASan's builds there are none), and with areas of threads' own.
class PerNodeTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(two_.are_there) << "two CPUs are needed to play two nodes";
    heap_ = std::make_unique<H>();
    facts_ = GetParam() ? os::read_facts(&own_area) : own_facts();
    own_area.index = 0;
    ASSERT_TRUE(heap_->start(facts_));
    heap_->attach(t_);
  }
  /// A heap never gives everything back; a test with many heaps must.
  void TearDown() override {
    own_area.index = 0;
    if (heap_) os::unmap(heap_->below.page_index().granule_at(0), 3 * kReach + kReach / 2 * 3);
  }
  void split() { ASSERT_TRUE(heap_->split(two_.map, facts_)); }
  Usage usage() {
    Usage u;
    heap_->tell(u);
    return u;
  }
  Block take(std::size_t bytes) { return heap_->allocate(t_, {.size = bytes}); }
  void give(std::byte* p) {
    Block b = heap_->block_of(p);
    if (b.size_class == kNoClass) b = heap_->measure(b);
    if (!heap_->release_hit_away(t_, p)) heap_->release(t_, b);
  }

  TwoCpus two_;
  std::unique_ptr<H> heap_;
  os::Facts facts_;
  H::Thread t_;
};
INSTANTIATE_TEST_SUITE_P(Areas, PerNodeTest, ::testing::Bool(), [](const auto& way) { return way.param ? "OfTheMachine" : "OfThreads"; });

TEST_P(PerNodeTest, OneNodeChangesNothing) {
  EXPECT_FALSE(heap_->split(os::NodeMap{}, facts_));
  EXPECT_EQ(heap_->node_count(), 0u);
  const Block b = take(100);
  ASSERT_TRUE(heap_->release_hit(t_, b) || (heap_->release(t_, b), true));
  EXPECT_TRUE(heap_->allocate_hit(t_, {.size = 100})) << "hits go on";
}

TEST_P(PerNodeTest, WhatWasThereBeforeStaysAndGoesBackWhereItCameFrom) {
  std::vector<Block> early;
  for (std::size_t n : {1, 100, 5000, 100'000, 1'000'000}) early.push_back(take(n)), Contents::write(early.back(), n);
  const std::size_t live = usage().live;
  split();
  EXPECT_EQ(usage().live, live);
  for (const Block b : early) {
    EXPECT_TRUE(heap_->holds(b.ptr));
    EXPECT_EQ(heap_->node_of(b.ptr), heap_->node_count());
    EXPECT_EQ(heap_->measure(heap_->block_of(b.ptr)).size, b.size);
    give(b.ptr);
  }
  EXPECT_EQ(usage().live, 0u);
  EXPECT_FALSE(heap_->allocate_hit(t_, {.size = 100})) << "what is below serves nobody any more";
}

TEST_P(PerNodeTest, EachNodeGetsItsOwnOfEverySize) {
  split();
  for (unsigned node : {0u, 1u, 0u})
    two_.on(node, [&] {
      std::vector<Block> blocks;
      for (std::size_t n = 1; n < 2'000'000; n += n / 3 + 1) blocks.push_back(take(n));
      for (const Block b : blocks) {
        EXPECT_EQ(heap_->node_of(b.ptr), node);
        give(b.ptr);
      }
      heap_->detach(t_);
      own_area.index = 0;
    });
  EXPECT_EQ(usage().live, 0u);
}

TEST_P(PerNodeTest, WhatOneNodeTakesAndAnotherFreesComesBack) {
  split();
  constexpr std::size_t kBytes = 4_MiB;
  for (int round = 0; round < 40; ++round) {
    std::vector<std::byte*> blocks;
    two_.on(0, [&] {
      for (std::size_t sum = 0, n = 16; sum < kBytes; sum += n, n = n * 5 % 3001 + 1) blocks.push_back(take(n).ptr);
      for (std::byte* p : blocks) EXPECT_EQ(heap_->node_of(p), 0u);
      heap_->detach(t_);
      own_area.index = 0;
    });
    two_.on(1, [&] {
      for (std::byte* p : blocks) give(p);
      heap_->detach(t_);
      own_area.index = 0;
    });
  }
  EXPECT_LE(usage().mapped, 5 * kBytes) << "what is in use at once, and what magazines hold";
  EXPECT_EQ(usage().live, 0u);
}

/// A magazine of what another node frees is emptied when it is full: half of it would never be wanted there.
TEST_P(PerNodeTest, WhatWaitsToGoHomeGoesWhole) {
  split();
  std::vector<std::byte*> blocks;
  two_.on(0, [&] {
    for (int i = 0; i < 2000; ++i) blocks.push_back(take(2000).ptr);  // a class without colours: those alone would send it home
    heap_->detach(t_);
    own_area.index = 0;
  });
  std::size_t most = 0, emptied = 0, last = 0;
  two_.on(1, [&] {
    for (std::byte* p : blocks) {
      give(p);
      std::vector<CacheUsage> caches(os::kCpusMax);
      Usage u;
      u.caches = caches.data(), u.caches_max = os::kCpusMax;
      heap_->tell(u);
      const std::size_t waiting = caches[static_cast<unsigned>(two_.cpu[1])].blocks;
      emptied += last > waiting && waiting == 0;
      most = waiting > most ? waiting : most;
      last = waiting;
    }
    heap_->detach(t_);
    own_area.index = 0;
  });
  EXPECT_EQ(usage().live, 0u);
  if (!facts_.rseq.is_kernels) return;  // which thread is where is not known then
  EXPECT_GT(most, 10u);
  EXPECT_GT(emptied, 10u);
}

/// Threads of both nodes take, hand on and free at random; of every granule that ever held a block it is known for which node.
TEST_P(PerNodeTest, NoSpanServesTwoNodes) {
  split();
  struct Parcel {
    std::byte* ptr;
    std::uint64_t tag;
    std::size_t size;
  };
  std::mutex lock;
  std::vector<Parcel> parcels;
  std::map<std::uintptr_t, unsigned> granules;
  std::atomic<int> wrong{0}, spoilt{0};
  const auto live = [&](unsigned node, std::uint64_t seed) {
    two_.stay_on(node);
    Random random(seed);
    H::Thread t;
    for (int i = 0; i < 20'000; ++i) {
      if (random.below(2)) {
        const Block b = heap_->allocate(t, {.size = random.size(400'000)});
        const std::uint64_t tag = random.next();
        Contents::write(b, tag);
        const std::lock_guard guard(lock);
        for (std::uintptr_t g = address_of(b.ptr) / kGranule; g <= (address_of(b.ptr) + b.size - 1) / kGranule; ++g)
          if (granules.emplace(g, node).first->second != node) ++wrong;
        parcels.push_back({b.ptr, tag, b.size});
      } else {
        Parcel p;
        {
          const std::lock_guard guard(lock);
          if (parcels.empty()) continue;
          std::swap(parcels[random.below(parcels.size())], parcels.back());
          p = parcels.back();
          parcels.pop_back();
        }
        const Block b = heap_->measure(heap_->block_of(p.ptr));
        if (b.size != p.size || !Contents::are(b, p.tag, b.size)) ++spoilt;
        if (!heap_->release_hit_away(t, p.ptr)) heap_->release(t, b);
      }
      if (random.below(5000) == 0) heap_->trim(t);
      if (random.below(5000) == 0) heap_->purge_idle();
    }
    heap_->detach(t);
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i) threads.emplace_back(live, i % 2, 100 + i);
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong.load(), 0) << "granules that served two nodes";
  EXPECT_EQ(spoilt.load(), 0) << "blocks that changed while they were live";
  for (const Parcel& p : parcels) give(p.ptr);
  heap_->audit();
  EXPECT_EQ(usage().live, 0u);
}

TEST_P(PerNodeTest, WhatOneNodeNoLongerNeedsIsThereForTheOther) {
  split();
  constexpr std::size_t kBytes = 32_MiB;
  const auto fill = [&] {
    std::vector<std::byte*> blocks;
    for (std::size_t sum = 0; sum < kBytes; sum += 3000) {
      const Block b = take(3000);
      std::memset(b.ptr, 1, b.size);
      blocks.push_back(b.ptr);
    }
    return blocks;
  };
  for (unsigned node : {0u, 1u})
    two_.on(node, [&] {
      for (std::byte* p : fill()) give(p);
      EXPECT_GT(usage().dirty, kBytes / 2);
      heap_->trim(t_);
      EXPECT_EQ(usage().dirty, 0u) << "its pages went back to the system, which gives them to whoever asks";
      heap_->detach(t_);
      own_area.index = 0;
    });
}

TEST_P(PerNodeTest, ALimitIsOneForAllWhoeverUsesIt) {
  split();
  constexpr std::size_t kLimit = 64_MiB;
  heap_->set_limit_bytes(kLimit);
  const auto fill = [&](std::size_t bytes, std::size_t most) {  // touched: what is not may be had beyond the limit
    std::vector<std::byte*> blocks;
    for (std::size_t sum = 0; sum < most; sum += bytes) {
      Block b = take(bytes);
      if (!b) heap_->trim(t_), b = take(bytes);  // as malloc does at the limit
      if (!b) break;
      std::memset(b.ptr, 1, b.size);
      blocks.push_back(b.ptr);
    }
    return blocks;
  };
  for (const std::size_t bytes : {std::size_t{3000}, std::size_t{200'000}, std::size_t{700'000}}) {
    std::vector<std::byte*> of_first, of_second;
    two_.on(0, [&] { of_first = fill(bytes, kLimit / 4), heap_->detach(t_), own_area.index = 0; });
    two_.on(1, [&] { of_second = fill(bytes, 2 * kLimit), heap_->detach(t_), own_area.index = 0; });
    EXPECT_GE((of_first.size() + of_second.size()) * bytes, kLimit * 9 / 10) << "one node has what the other does not need";
    EXPECT_LE(heap_->taken_bytes(), kLimit + kLimit / 8);
    EXPECT_EQ(usage().limit, kLimit);
    two_.on(0, [&] {
      EXPECT_FALSE(take(kLimit / 8)) << "nothing is left for anybody";
      for (std::byte* p : of_second) give(p);
      heap_->trim(t_);
      of_second = fill(bytes, kLimit / 2);
      EXPECT_GE(of_second.size() * bytes, kLimit / 2) << "what the other gave up can be had";
      for (std::byte* p : of_second) {
        EXPECT_EQ(heap_->node_of(p), 0u);
        give(p);
      }
      for (std::byte* p : of_first) give(p);
      heap_->trim(t_);
      heap_->detach(t_);
      own_area.index = 0;
    });
  }
  heap_->audit();
  EXPECT_EQ(usage().live, 0u);
}

TEST_P(PerNodeTest, ASoftLimitIsOneForAllWhoeverUsesIt) {
  split();
  heap_->set_purge_ms(-1);
  constexpr std::size_t kSoft = 64_MiB, kBlock = 1_MiB;
  heap_->set_soft_limit_bytes(kSoft);
  EXPECT_EQ(usage().soft_limit, kSoft);
  std::vector<std::byte*> first, second;
  two_.on(0, [&] {
    while (first.size() < 48) first.push_back(take(kBlock).ptr);
    EXPECT_FALSE(heap_->is_pressed()) << "more than its share, less than all";
    for (; first.size() > 40; first.pop_back()) give(first.back());
    EXPECT_GE(heap_->idle_bytes(), 8 * kBlock) << "stays for later";
    while (first.size() < 48) first.push_back(take(kBlock).ptr);
  });
  two_.on(1, [&] {
    while (second.size() < 30) second.push_back(take(kBlock).ptr);
    EXPECT_FALSE(heap_->is_pressed()) << "within its share: it is the other that yields";
  });
  two_.on(0, [&] {
    EXPECT_TRUE(heap_->is_pressed());
    for (; first.size() > 40; first.pop_back()) give(first.back());
    EXPECT_EQ(heap_->idle_bytes(), 0u) << "goes back at once";
  });
  for (std::byte* p : first) give(p);
  for (std::byte* p : second) give(p);
  EXPECT_EQ(usage().live, 0u);
}

TEST_P(PerNodeTest, AChildOfAForkHasTheHeapsOfItsParent) {
  split();
  std::byte* mine[2];
  for (unsigned node : {0u, 1u})
    two_.on(node, [&] {
      mine[node] = take(500).ptr;
      heap_->detach(t_);
      own_area.index = 0;
    });
  heap_->lock_all();
  const pid_t child = ::fork();
  if (child == 0) {
    heap_->reset_after_fork();
    bool good = true;
    for (unsigned node : {0u, 1u}) {
      two_.stay_on(node);
      give(mine[node]);
      good &= heap_->node_of(take(500).ptr) == node;
    }
    ::_exit(good ? 0 : 1);
  }
  heap_->unlock_all();
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

unsigned mismatches = 0;
void count(const Crime&) noexcept { ++mismatches; }

/// Each heap's guards know its own blocks: those of what is below would read beyond its tables.
TEST(PerNode, ABlockIsJudgedByTheGuardsOfItsHeap) {
  using Checked = Stack<Layers<PerNode, SizeCheck<on_fault::CallBack<count>>>, HslabLayers>;
  TwoCpus two;
  ASSERT_TRUE(two.are_there) << "two CPUs are needed to play two nodes";
  const auto h = std::make_unique<Checked>();
  const os::Facts facts = own_facts();
  own_area.index = 0;
  Checked::Thread t;
  ASSERT_TRUE(h->start(facts) && h->split(two.map, facts));
  h->attach(t);
  mismatches = 0;
  for (const std::size_t n : {24, 5000, 300'000}) {
    const Block b = h->allocate(t, {.size = n});
    ASSERT_LT(h->node_of(b.ptr), h->node_count());
    h->check_size(b.ptr, n, 1);
    EXPECT_EQ(mismatches, 0u) << n;
    h->check_size(b.ptr, n * 2, 1);
    EXPECT_EQ(std::exchange(mismatches, 0u), 1u) << n;
  }
  h->detach(t);
  own_area.index = 0;
  os::unmap(h->below.page_index().granule_at(0), 3 * kReach + kReach / 2 * 3);
}

}  // namespace
}  // namespace mortise::test
