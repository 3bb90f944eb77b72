// If this failed, a stale pointer would meet somebody else's object sooner than promised, a block would be given out twice, or a
// quarantine would grow without bound.
#include "mortise/guard/delayed_reuse.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "mortise/backbone/tlsf.hpp"
#include "mortise/source/mmap_heap.hpp"
#include "tests/support/ledger.hpp"
#include "tests/support/stage.hpp"

namespace mortise::test {
namespace {

constexpr std::size_t kWait = 16_KiB, kSpare = 8_KiB;
constexpr unsigned kBlocks = 256, kShare = (kWait + kSpare) / kBlocks, kTag = 8;
using Sizes = classes::Geometric<16, 4_KiB>;
using Delaying = Stack<Layers<DelayedReuse<kWait, kSpare, Sizes, kBlocks>, Tlsf<>, MmapHeap<>>>;

Block allocate(Delaying& h, Delaying::Thread& t, std::size_t size) {
  const Block hit = h.allocate_hit(t, {.size = size});
  return hit ? hit : h.allocate(t, {.size = size});
}
void release(Delaying& h, Delaying::Thread& t, std::byte* p) {
  if (!h.release_hit(t, h.block_of(p))) h.release(t, h.block_of(p));
}

/// Releases and allocates at random, and finds for every block that is given out by a hit how many bytes were released since it went.
struct Waits {
  std::size_t shortest = SIZE_MAX;
  unsigned hits = 0;
};
template <class Size> Waits waits(Size size) {
  Waits found;
  Stage<Delaying> stage;
  stage.as(0, [&](Delaying& h, auto& t) {
    std::mt19937 random(7);
    std::map<std::byte*, std::size_t> gone;  // the clock when it went
    std::vector<Block> held;
    std::size_t clock = 0;
    for (unsigned i = 0; i < 60'000; ++i) {
      if (held.size() < 100 || random() % 2) {
        const std::size_t n = size(random);
        Block b = h.allocate_hit(t, {.size = n});
        if (b) {
          ++found.hits;
          found.shortest = std::min(found.shortest, clock - gone.at(b.ptr));
        } else {
          b = h.allocate(t, {.size = n});
        }
        EXPECT_GE(b.size, n);
        EXPECT_EQ(b.size, h.measure({b.ptr, 0}).size);
        gone.erase(b.ptr);
        held.push_back(b);
      } else {
        std::swap(held[random() % held.size()], held.back());
        clock += std::max<std::size_t>(held.back().size + kTag, kShare);
        gone[held.back().ptr] = clock;
        release(h, t, held.back().ptr);
        held.pop_back();
      }
    }
    for (const Block& b : held) release(h, t, b.ptr);
    h.trim(t);
    h.audit();
    Usage u{};
    h.tell(u);
    EXPECT_EQ(u.live, 0u);
  });
  return found;
}

TEST(DelayedReuse, ABlockWaitsForSoManyBytesOfReleases) {
  for (const std::size_t size : {16u, 64u, 1000u, 3000u}) {
    const Waits found = waits([size](auto&) { return size; });
    EXPECT_GE(found.shortest, kWait) << size;
    EXPECT_GT(found.hits, 1000u) << size;
  }
  const Waits mixed = waits([](auto& random) { return 1 + random() % 600; });
  EXPECT_GE(mixed.shortest, kWait);
  EXPECT_GT(mixed.hits, 1000u);
  EXPECT_GE(waits([](auto& random) { return 1 + random() % 9000; }).shortest, kWait);
}

/// What is released without end does not pile up.
TEST(DelayedReuse, NoMoreWaitsThanIsAllowed) {
  Stage<Delaying> stage;
  stage.as(0, [](Delaying& h, auto& t) {
    for (const std::size_t size : {16u, 100u, 1000u, 5000u}) {
      std::vector<std::byte*> blocks;
      for (unsigned i = 0; i < 2000; ++i) blocks.push_back(h.allocate(t, {.size = size}).ptr);
      for (std::byte* const p : blocks) release(h, t, p);
      Usage u{};
      h.tell(u);
      EXPECT_EQ(u.live, 0u);
      std::size_t waiting = 0, count = 0;
      for (std::byte* const p : blocks)
        if (h.freed_at(p)) ++count, waiting += size;
      EXPECT_LE(waiting, kWait + kSpare);
      EXPECT_LE(count, kBlocks);
      EXPECT_GE(count * std::max<std::size_t>(size + 2 * kTag, kShare), kWait);
    }
  });
}

TEST(DelayedReuse, WhatIsTooLargeDoesNotStay) {
  Stage<Delaying> stage;
  stage.as(0, [](Delaying& h, auto& t) {
    std::byte* const p = allocate(h, t, kWait).ptr;
    release(h, t, p);
    EXPECT_EQ(h.freed_at(p), nullptr);
    EXPECT_EQ(allocate(h, t, kWait).ptr, p);
  });
}

/// What has no size of its own waits with the others and leaves in its turn.
TEST(DelayedReuse, ABlockThatWasResizedIsGivenOutBySizeOrNotAtAll) {
  Stage<Delaying> stage;
  stage.as(0, [](Delaying& h, auto& t) {
    for (unsigned i = 0; i < 5000; ++i) {
      const Block b = allocate(h, t, 900);
      const Block resized = h.resize_in_place(t, b, 500 + i % 400);
      release(h, t, resized ? resized.ptr : b.ptr);
      const Block c = allocate(h, t, 500 + i % 400);
      EXPECT_EQ(c.size, h.measure({c.ptr, 0}).size);
      EXPECT_GE(c.size, 500 + i % 400);
      release(h, t, c.ptr);
    }
    h.audit();
  });
}

TEST(DelayedReuse, AZeroedBlockIsZero) {
  Stage<Delaying> stage;
  stage.as(0, [](Delaying& h, auto& t) {
    unsigned hits = 0;
    for (unsigned i = 0; i < 3000; ++i) {
      Block b = h.allocate_hit(t, {.size = 200, .zeroed = true});
      hits += bool(b);
      if (!b) b = h.allocate(t, {.size = 200, .zeroed = true});
      for (unsigned at = 0; at < 200; ++at) EXPECT_EQ(b.ptr[at], std::byte{0});
      std::memset(b.ptr, 0xff, 200);
      release(h, t, b.ptr);
    }
    EXPECT_GT(hits, 1000u);
  });
}

TEST(DelayedReuse, AThreadThatEndsLeavesNothing) {
  Stage<Delaying> stage;
  for (unsigned round = 0; round < 3; ++round) {
    std::byte* left = nullptr;
    stage.as(0, [&](Delaying& h, auto& t) {
      left = allocate(h, t, 200).ptr;
      release(h, t, left);
      EXPECT_NE(h.freed_at(left), nullptr);
    });
    stage.detach(0);
    EXPECT_EQ(stage.heap().freed_at(left), nullptr);
    Usage u{};
    stage.heap().tell(u);
    EXPECT_EQ(u.live, 0u);
    stage.attach(0);
  }
}

#if defined(__x86_64__)

/// Blocks with a tag, and without classes.
struct TaggedLedger : Ledger {
  using Classes = NoClasses;
  static constexpr std::size_t kTag = 8, kChunkMin = 32;
  void release(Thread& t, Block b) noexcept { Ledger::release(t, b); }
  void release_some(Thread& t, std::byte* const* in, unsigned n) noexcept {
    for (unsigned i = 0; i < n; ++i) Ledger::release(t, {in[i], 0});
  }
  std::size_t chunk_bytes_of(std::byte*) noexcept { return 64; }
  Block block_of(std::byte* p) noexcept { return {p, 0}; }
  Block measure(Block b) noexcept { return {b.ptr, 56}; }
  Block block(unsigned i) noexcept { return {Ledger::block(i).ptr, 0}; }
};

/// Four wait at most: a few releases take every way there is.
TEST(DelayedReuse, AReleaseInASignalHandlerMeetsNothingHalfDone) {
  release_at_each_instruction<DelayedReuse<128, 128, Sizes, 16>::Over<TaggedLedger>>();
}

/// A thread takes out what it has released before; a handler that does the same at any instruction gets other blocks than it.
TEST(DelayedReuse, NoBlockIsGivenOutTwiceToAHandlerAndItsThread) {
  using Quarantine = DelayedReuse<128, 512, Sizes, 16>::Over<TaggedLedger>;
  std::unique_ptr<Quarantine> heap;
  std::unique_ptr<Quarantine::Thread> thread;
  const auto release = [&](unsigned i) {
    if (!heap->release_hit(*thread, heap->below.block(i))) heap->release(*thread, heap->below.block(i));
  };
  const auto take = [&] { return heap->allocate_hit(*thread, {.size = 56}).ptr; };
  std::byte* taken[4] = {};
  std::byte* taken_inside = nullptr;
  EachInstruction::of(
      [&] {
        if (heap) {
          unsigned given = 0;
          for (std::byte* const p : taken) given += p != nullptr;
          EXPECT_GE(given, 3u);
          for (std::byte* const p : taken) EXPECT_TRUE(!p || p != taken_inside);
          for (unsigned i = 0; i < 4; ++i)
            for (unsigned j = 0; j < i; ++j) EXPECT_TRUE(!taken[i] || taken[i] != taken[j]);
        }
        heap = std::make_unique<Quarantine>();
        thread = std::make_unique<Quarantine::Thread>();
        heap->attach(*thread);
        for (unsigned i = 0; i < 8; ++i) release(i);
        taken_inside = nullptr;
      },
      [&] {
        for (std::byte*& p : taken) {
          p = take();
          release(8 + static_cast<unsigned>(&p - taken));
        }
      },
      [&] {
        if (heap->below.is_at_work) return;
        taken_inside = take();
      });
}

#endif

}  // namespace
}  // namespace mortise::test
