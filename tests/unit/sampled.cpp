// If this failed, a heap profile would show some call sites larger than they are and others smaller, or miss a whole range of sizes.
#include "mortise/watch/sampled.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include "mortise/allocators/hslab.hpp"
#include "tests/support/stage.hpp"

namespace mortise::test {
namespace {

constexpr std::size_t kMean = 64_KiB;
template <unsigned kMetered>
using Profiled = Stack<Layers<Sampled<kMean>>, HslabWith<CoreCache<32_KiB, by_core, kMetered>, MmapHeap<>>>;

template <class H> class Sampling : public ::testing::Test {};
using Kinds = ::testing::Types<Profiled<0>, Profiled<1>>;
TYPED_TEST_SUITE(Sampling, Kinds);

/// As malloc does.
template <class H> Block take(H& h, typename H::Thread& t, std::size_t bytes) {
  const Block hit = hit_below(h, t, {.size = bytes});
  const Block b = hit ? hit : h.allocate(t, {.size = bytes});
  EXPECT_TRUE(b) << "no memory";
  return b;
}
template <class H> void give(H& h, typename H::Thread& t, Block b) {
  if (!hit_below(h, t, b.ptr)) h.release(t, h.measure(h.block_of(b.ptr)));
}
/// Samples by how many bytes were asked for.
template <class H> std::map<std::size_t, std::uint64_t> samples(H& h) {
  std::map<std::size_t, std::uint64_t> found;
  h.each_stack([&](const HeapProfile::Stack& s) { found[s.allocated_bytes / s.allocated_blocks] += s.allocated_blocks; });
  return found;
}
/// How many of `n` blocks are samples: within six standard deviations, and six more where they are few; all but once in a billion runs.
void expect_share(std::uint64_t seen, std::size_t bytes, std::size_t n) {
  const double share = 1 - std::exp(-static_cast<double>(bytes) / static_cast<double>(kMean)), mean = share * static_cast<double>(n);
  EXPECT_NEAR(static_cast<double>(seen), mean, 6 * std::sqrt(mean) + 6) << n << " blocks of " << bytes;
}

template <class H, std::size_t kBytes> [[gnu::noinline]] Block site(H& h, typename H::Thread& t) {
  const Block b = take(h, t, kBytes);
  asm volatile("" ::: "memory");  // no tail call: each size has a stack of its own
  return b;
}

TYPED_TEST(Sampling, TakesBlocksThatComeAgainAndBlocksThatStayAlike) {
  using H = TypeParam;
  Stage<H> stage(2);
  constexpr std::size_t kRounds = 400'000;
  std::vector<Block> kept;
  for (std::size_t i = 0; i < kRounds; ++i)
    stage.as(i / 1000 % 2, [&](H& h, auto& t) {  // blocks of 48 stay, those of 40 are freed at once: of one class, and one misses more
      const Block stays = site<H, 48>(h, t), goes = site<H, 40>(h, t);
      give(h, t, goes);
      kept.push_back(stays);
    });
  auto seen = samples(stage.heap());
  expect_share(seen[48], 48, kRounds);
  expect_share(seen[40], 40, kRounds);
  for (const Block b : kept) stage.as(0, [&](H& h, auto& t) { give(h, t, b); });
  stage.heap().each_stack([](const HeapProfile::Stack& s) { EXPECT_EQ(s.live_blocks, 0u); });
}

TYPED_TEST(Sampling, TakesEverySizeByItsBytes) {
  using H = TypeParam;
  Stage<H> stage;
  constexpr std::size_t kRounds = 30'000;
  stage.as(0, [&](H& h, auto& t) {
    for (std::size_t i = 0; i < kRounds; ++i) {
      const Block blocks[] = {site<H, 16>(h, t), site<H, 1000>(h, t), site<H, 5000>(h, t), site<H, 60000>(h, t), site<H, 400000>(h, t)};
      for (const Block b : blocks) give(h, t, b);
    }
  });
  auto seen = samples(stage.heap());
  for (const std::size_t bytes : {16ul, 1000ul, 5000ul, 60000ul, 400000ul}) expect_share(seen[bytes], bytes, kRounds);
}

TYPED_TEST(Sampling, TheFirstBlockOfAThreadIsNoSampleByItself) {
  using H = TypeParam;
  constexpr unsigned kThreads = 600;
  Stage<H> stage(kThreads);
  for (unsigned thread = 0; thread < kThreads; ++thread)
    stage.as(thread, [](H& h, auto& t) { give(h, t, site<H, 100>(h, t)); });
  EXPECT_LE(samples(stage.heap())[100], 12u) << "of 600 blocks, of which 0.9 are samples in the mean";
}

/// Where a large block is asked for, a chunk of room for samples among them, a signal's handler runs.
struct Interrupted {
  static inline std::function<void()> handler;
  template <class Below> class Over : public Passthrough<Below> {
   public:
    using typename Passthrough<Below>::Thread;
    Block allocate_hit(Thread& t, Request r) noexcept { return this->below.allocate_hit(t, r); }
    bool release_hit(Thread& t, Block b) noexcept { return this->below.release_hit(t, b); }
    Block allocate(Thread& t, Request r) noexcept {
      if (r.size > Below::Classes::kMaxBytes && handler) handler();
      return this->below.allocate(t, r);
    }
  };
};

TEST(SamplesOfAHandler, AreNoneWhileItsOwnThreadIsInAMiss) {
  using H = Stack<Layers<Sampled<kMean>, Interrupted>, HslabWith<CoreCache<32_KiB, by_core, 1>, MmapHeap<>>>;
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    for (int i = 0; i < 100; ++i) give(h, t, take(h, t, 24));
    unsigned runs = 0;
    Interrupted::handler = [&] {
      for (std::size_t bytes = 0; bytes < 10 * kMean; bytes += 24) give(h, t, take(h, t, 24));  // ten samples' worth of hits
      ++runs;
    };
    std::vector<Block> blocks;
    for (int i = 0; i < 100'000; ++i) blocks.push_back(take(h, t, 1000));  // some 1500 samples; a chunk has room for 512
    EXPECT_GT(runs, 0u);
    for (int i = 0; i < 100; ++i) give(h, t, take(h, t, 400'000));  // larger than the mean: each is a sample, or is due as one
    EXPECT_GE(runs, 100u);
    Interrupted::handler = nullptr;
    for (const Block b : blocks) give(h, t, b);
  });
}

}  // namespace
}  // namespace mortise::test
