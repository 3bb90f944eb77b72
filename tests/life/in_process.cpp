// Should threads that share a heap lose or double a block, or caches outgrow the CPUs, nothing above could be trusted.
// The stack itself, without the shared object around it, so that ThreadSanitizer sees every access.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "mortise/allocators/hslab.hpp"
#include "mortise/os/facts.hpp"

namespace mortise {
void report(Fault fault, Block block) noexcept {
  std::fprintf(stderr, "fault=%s ptr=%p size=%zu\n", name_of(fault), static_cast<void*>(block.ptr),
               std::size_t{block.size});
  std::abort();
}
}  // namespace mortise

namespace {

using namespace mortise;

thread_local os::OwnArea own_area;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr unsigned kSteps = 5'000;
#else
constexpr unsigned kSteps = 30'000;
#endif

std::unique_ptr<Hslab> started(unsigned cpus, bool own = false) {
  own_area = {};  // what it knew was of another heap
  auto heap = std::make_unique<Hslab>();
  os::Facts facts = os::read_facts(&own_area);
  if (own) {
    facts.rseq = {};
    facts.rseq.offset = reinterpret_cast<std::byte*>(&own_area) - static_cast<std::byte*>(__builtin_thread_pointer());
    facts.rseq.index_at = facts.rseq.offset;
    facts.can_restart = false;
  }
  facts.cpus = cpus;
  EXPECT_TRUE(heap->start(facts));
  return heap;
}

/// Each thread puts blocks into places that all share and frees what it finds there: half of all frees are remote.
void swap_blocks(Hslab& heap, std::vector<std::atomic<unsigned char*>>& places, unsigned seed) {
  Hslab::Thread thread{};
  heap.attach(thread);
  std::uint64_t random = seed * 2 + 1;
  for (unsigned step = 0; step < kSteps; ++step) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const std::size_t n = random >> 62 ? 16 + (random >> 40) % 1000 : 1 + (random >> 40) % 600'000;
    const Block b = heap.allocate(thread, {.size = n, .zeroed = (random >> 20 & 7) == 0});
    ASSERT_TRUE(b);
    auto* p = reinterpret_cast<unsigned char*>(b.ptr);
    const auto mark = static_cast<unsigned char>(n % 251 + 1);
    std::memcpy(p, &n, sizeof n);
    p[n < 9 ? 8 : n - 1] = mark;
    unsigned char* found = places[(random >> 33) % places.size()].exchange(p, std::memory_order_acq_rel);
    if (!found) continue;
    std::size_t size;
    std::memcpy(&size, found, sizeof size);
    ASSERT_EQ(found[size < 9 ? 8 : size - 1], size % 251 + 1);
    heap.release(thread, heap.measure(heap.block_of(reinterpret_cast<std::byte*>(found))));
    if (step % 5000 == 0) heap.trim(thread);
  }
  heap.detach(thread);
}

void storm(Hslab& heap) {
  std::vector<std::atomic<unsigned char*>> places(500);
  for (int generation = 0; generation < 3; ++generation) {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 4; ++i) threads.emplace_back([&, i] { swap_blocks(heap, places, i + 10); });
    for (auto& t : threads) t.join();
  }
  Hslab::Thread thread{};
  heap.attach(thread);
  for (auto& place : places)
    if (auto* p = reinterpret_cast<std::byte*>(place.load())) heap.release(thread, heap.measure(heap.block_of(p)));
  heap.trim(thread);
  heap.detach(thread);
  Usage usage;
  heap.tell(usage);
  EXPECT_EQ(usage.live, 0u);
  EXPECT_EQ(usage.large_count, 0u);
}

TEST(InProcess, ThreadsSwapBlocksOnTheCoresOfTheMachine) { storm(*started(os::cpus_allowed())); }
TEST(InProcess, ThreadsSwapBlocksWithAreasOfTheirOwn) { storm(*started(2, true)); }
TEST(InProcess, ThreadsSwapBlocksWhereThereAreManyCpus) { storm(*started(1024)); }

/// How many blocks of `n` bytes a core's cache keeps when very many have been freed.
unsigned kept(unsigned cpus, std::size_t n) {
  auto heap = started(cpus, true);
  Hslab::Thread thread{};
  heap->attach(thread);
  std::vector<Block> blocks(5000);
  for (Block& b : blocks) b = heap->allocate(thread, {.size = n});
  for (Block& b : blocks) heap->release(thread, b);
  unsigned count = 0;
  while (heap->allocate_hit(thread, {.size = n})) ++count;
  return count;
}

TEST(InProcess, CachesAreBoundedByTheCpusThatMayBeUsed) {
  EXPECT_GE(kept(2, 64), 30u);
  EXPECT_EQ(kept(2, 64), kept(16, 64));
  for (const std::size_t n : {std::size_t{64}, std::size_t{1000}, std::size_t{10'000}}) {
    EXPECT_LE(kept(1024, n), kept(2, n));
    EXPECT_LE(kept(1024, n), 8u) << n;
    EXPECT_GE(kept(1024, n), 1u) << n;
  }
}

}  // namespace
