// If this failed, a stale pointer would meet somebody else's object sooner than promised, or a quarantine would grow without bound.
#include "mortise/guard/delayed_batches.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "mortise/allocators/hslab.hpp"
#include "tests/support/ledger.hpp"
#include "tests/support/stage.hpp"

namespace mortise::test {
namespace {

constexpr std::size_t kWait = 16_KiB;
using Delaying = Stack<Layers<DelayedBatches<kWait>>, HslabLayers>;

unsigned accused = 0;
const void* released_at = nullptr;
void note(const Crime& crime) noexcept {
  accused += crime.fault == Fault::write_after_free;
  released_at = crime.freed_at;
}
using Watching = Stack<Layers<DelayedBatches<kWait, fills::Zeroed<>, 4_KiB, on_fault::CallBack<note>>>, HslabLayers>;

/// Releases and allocates at random, and finds for every block that comes again how many bytes were released since it went.
template <class Size> std::size_t shortest_wait(Size size) {
  std::size_t shortest = SIZE_MAX;
  Stage<Delaying> stage;
  stage.as(0, [&](Delaying& h, auto& t) {
    std::mt19937 random(7);
    std::map<std::byte*, std::size_t> gone;  // the clock when it went
    std::vector<Block> held;
    std::size_t clock = 0;
    for (unsigned i = 0; i < 60'000; ++i) {
      if (held.size() < 100 || random() % 2) {
        const Block b = h.allocate(t, {.size = size(random)});
        if (const auto known = gone.find(b.ptr); known != gone.end()) {
          shortest = std::min(shortest, clock - known->second);
          gone.erase(known);
        }
        held.push_back(b);
      } else {
        std::swap(held[random() % held.size()], held.back());
        clock += held.back().size;
        gone[held.back().ptr] = clock;
        h.release(t, h.block_of(held.back().ptr));
        held.pop_back();
      }
    }
    for (const Block& b : held) h.release(t, h.block_of(b.ptr));
  });
  return shortest;
}

TEST(DelayedBatches, ABlockWaitsForSoManyBytesOfReleases) {
  EXPECT_GE(shortest_wait([](auto&) { return 64u; }), kWait);
  EXPECT_GE(shortest_wait([](auto&) { return 1000u; }), kWait);
  EXPECT_GE(shortest_wait([](auto& random) { return 64 + random() % 6000; }), kWait);
}

/// A block smaller than 64 bytes counts 64: it waits for as many blocks.
TEST(DelayedBatches, ASmallBlockWaitsForSoManyReleases) {
  EXPECT_GE(shortest_wait([](auto&) { return 16u; }), kWait / 64 * 16);
}

TEST(DelayedBatches, AByteThatIsNoClassHasNoRoom) {
  Stage<Delaying> stage;
  stage.as(0, [](Delaying& h, auto& t) {
    const Block b = h.allocate(t, {.size = 100});
    h.release(t, h.allocate(t, {.size = 100}));
    unsigned taken = 0;
    const auto take = [&taken] { ++taken; };
    EXPECT_FALSE(h.release_hit_as(t, b.ptr, kNoClass, take));
    for (unsigned byte = Delaying::Classes::kCount + 1; byte < 256; ++byte) EXPECT_FALSE(h.release_hit_as(t, b.ptr, byte, take)) << byte;
    EXPECT_EQ(taken, 0u);
    EXPECT_TRUE(h.release_hit_as(t, b.ptr, b.class_index(), take));
    EXPECT_EQ(taken, 1u);
  });
}

/// The queue, a batch that is one too many, and the open one, however many classes: what is released without end does not pile up.
TEST(DelayedBatches, NoMoreWaitsThanIsAllowed) {
  Stage<Delaying> stage;
  stage.as(0, [](Delaying& h, auto& t) {
    constexpr std::size_t kBatch = 16_KiB;
    std::map<std::byte*, std::size_t> released;
    for (unsigned i = 0; i < 20'000; ++i) {
      const Block b = h.allocate(t, {.size = 64 + i * 37 % 5000});
      released[b.ptr] = b.size;
      h.release(t, h.block_of(b.ptr));
    }
    std::size_t waiting = 0;
    for (const auto& [p, bytes] : released)
      if (h.freed_at(p)) waiting += bytes;
    EXPECT_GE(waiting, kWait);
    EXPECT_LE(waiting, kWait + 2 * kBatch);
  });
}

/// Larger than a batch: alone in one, and it waits as long as any other.
TEST(DelayedBatches, ABlockLargerThanABatchWaits) {
  using Small = Stack<Layers<DelayedBatches<kWait, fills::Untouched, 1_KiB>>, HslabLayers>;
  Stage<Small> stage;
  stage.as(0, [](Small& h, auto& t) {
    const Block large = h.allocate(t, {.size = 5000});
    h.release(t, h.block_of(large.ptr));
    std::size_t clock = 0;
    while (h.freed_at(large.ptr)) {
      const Block b = h.allocate(t, {.size = 3000});
      h.release(t, h.block_of(b.ptr));
      ASSERT_LE(clock += b.size, 2 * kWait);
    }
    EXPECT_GE(clock, kWait);
  });
}

/// Blocks of one class leave in one go, of several one by one; what is wrong with one of either is told of that one.
template <class Zeroing> void look_at_mixed_batches() {
  Stage<Zeroing> stage;
  stage.as(0, [](Zeroing& h, auto& t) {
    constexpr std::size_t kSizes[] = {16, 32, 48, 64, 80, 112, 448, 1024, 2048};
    for (const std::size_t wrong : kSizes)
      for (std::size_t at : {std::size_t{0}, wrong < 1024 ? std::min<std::size_t>(wrong, 24) - 1 : wrong - 9}) {
        std::byte* stale = nullptr;
        for (const std::size_t size : kSizes) {
          const Block b = h.allocate(t, {.size = size});
          if (size == wrong) stale = b.ptr;
          h.release(t, h.block_of(b.ptr));
        }
        stale[at] = std::byte{1};
        accused = 0;
        h.trim(t);
        EXPECT_EQ(accused, 1u) << wrong << " at " << at;
        accused = 0;
        h.trim(t);
        EXPECT_EQ(accused, 0u);
      }
  });
}
TEST(DelayedBatches, AMixedBatchIsLookedAtWhole) {
  using Starts = DelayedBatches<kWait, fills::ZeroedStart<1_KiB>, 4_KiB, on_fault::CallBack<note>>;
  look_at_mixed_batches<Stack<Layers<Starts>, HslabLayers>>();
  look_at_mixed_batches<Stack<Layers<Starts, CoreCache<>, Slab<classes::Geometric<8, 256_KiB, 32>>, SpanCache<>, PageIndex, MmapHeap<>>>>();
}

TEST(DelayedBatches, WhatIsTooLargeDoesNotStay) {
  Stage<Delaying> stage;
  stage.as(0, [](Delaying& h, auto& t) {
    const Block b = h.allocate(t, {.size = kWait});
    h.release(t, h.block_of(b.ptr));
    EXPECT_EQ(h.allocate(t, {.size = kWait}).ptr, b.ptr);
    EXPECT_EQ(h.freed_at(b.ptr), nullptr);
  });
}

/// Every byte of every size, when the block leaves and when the program asks before.
TEST(DelayedBatches, AWriteAfterFreeIsFound) {
  Stage<Watching> stage;
  stage.as(0, [](Watching& h, auto& t) {
    for (std::size_t size = 16; size <= 600; size += 16)
      for (std::size_t at : {std::size_t{0}, size / 2, size - 1}) {
        const Block b = h.allocate(t, {.size = size});
        h.release(t, h.block_of(b.ptr));
        EXPECT_EQ(b.ptr[at], std::byte{0});
        b.ptr[at] = std::byte{1};
        accused = 0;
        h.check_waiting(t);
        EXPECT_EQ(accused, 1u) << size << " at " << at;
        accused = 0;
        h.trim(t);
        EXPECT_EQ(accused, 1u) << size << " at " << at;
        EXPECT_NE(released_at, nullptr);
      }
    accused = 0;
    h.trim(t);
    EXPECT_EQ(accused, 0u);
  });
}

/// In the quarantine of another thread too, in open batches and in queued ones, and what is looked at stays.
TEST(DelayedBatches, AWriteAfterFreeIsFoundInTheQuarantineOfAnother) {
  Stage<Watching> stage(3);
  std::byte* written = nullptr;
  for (unsigned n : {0u, 1u, 200u})  // so many are released behind it
    for (unsigned who : {1u, 2u}) {
      stage.as(who, [&](Watching& h, auto& t) {
        const Block b = h.allocate(t, {.size = 64});
        h.release(t, h.block_of(written = b.ptr));
        for (unsigned i = 0; i < n; ++i) h.release(t, h.block_of(h.allocate(t, {.size = 16}).ptr));
      });
      written[8] = std::byte{1};
      for (unsigned again : {0, 1})
        stage.as(0, [&](Watching& h, auto& t) {
          accused = 0;
          h.check_waiting(t);
          EXPECT_EQ(accused, 1u) << n << " behind it, of thread " << who << ", look " << again;
          EXPECT_NE(h.freed_at(written), nullptr) << "it waits as before";
        });
      written[8] = std::byte{0};
      stage.as(0, [&](Watching& h, auto& t) {
        accused = 0;
        h.check_waiting(t);
        h.trim(t);
        EXPECT_EQ(accused, 0u);
      });
    }
}

/// Another thread may empty the quarantine, and its blocks be given out and written to, while their owner looks at what waits.
using Racing = Stack<Layers<DelayedBatches<64_KiB, fills::ZeroedStart<>, 32_KiB, on_fault::CallBack<note>>>, HslabLayers>;
TEST(DelayedBatches, NobodyIsAccusedWhoseBlocksLeaveDuringALook) {
  static thread_local os::OwnArea area;
  const auto heap = std::make_unique<Racing>();
  ASSERT_TRUE(start_below(*heap, os::read_facts(&area)));
  accused = 0;
  std::atomic<bool> stop{false};
  std::vector<std::thread> others(4);  // more than cores, so that a look is interrupted in its middle
  for (auto& other : others) other = std::thread([&] {
    Racing::Thread t;
    attach_below(*heap, t);
    while (!stop) {
      std::byte* block[500];
      heap->trim(t);
      for (std::byte*& p : block) std::memset(p = heap->allocate(t, {.size = 64}).ptr, 0xff, 64);
      for (std::byte* p : block) heap->release(t, heap->block_of(p));
    }
    detach_below(*heap, t);
  });
  Racing::Thread t;
  attach_below(*heap, t);
  for (unsigned i = 0; i < 20'000; ++i) {
    std::byte* block[500];
    for (std::byte*& p : block) p = heap->allocate(t, {.size = 64}).ptr;
    for (std::byte* p : block) heap->release(t, heap->block_of(p));
    heap->check_waiting(t);
  }
  stop = true;
  for (auto& other : others) other.join();
  detach_below(*heap, t);
  EXPECT_EQ(accused, 0u);
}

/// What a fault calls may come back here: a handler that forks waits for the lock.
unsigned answered = 0, answered_with_the_lock = 0;
void come_back(const Crime&) noexcept;
using Answering = Stack<Layers<DelayedBatches<kWait, fills::Zeroed<>, 4_KiB, on_fault::CallBack<come_back>>>, HslabLayers>;
Stage<Answering>* answering = nullptr;
void come_back(const Crime&) noexcept {
  const auto index = own_area.index;
  answering->as(2, [](Answering& h, auto& t) {
    const Block b = h.allocate(t, {.size = 64});
    h.release(t, h.block_of(b.ptr));
    ++answered;
    answered_with_the_lock += !h.freed_at(b.ptr);  // it waits, and who asks is refused while the lock is held
  });
  own_area.index = index;
}
TEST(DelayedBatches, AFaultIsAnsweredWithoutTheLock) {
  Stage<Answering> stage(3);
  answering = &stage;
  const auto misuse = [&](unsigned blocks) {
    stage.as(0, [&](Answering& h, auto& t) {
      for (unsigned i = 0; i < blocks; ++i) {
        const Block b = h.allocate(t, {.size = 200});
        h.release(t, h.block_of(b.ptr));
        b.ptr[8] = std::byte{1};
      }
    });
  };
  answered = answered_with_the_lock = 0;
  misuse(3);
  stage.as(1, [](Answering& h, auto& t) { h.trim(t); });
  EXPECT_EQ(answered, 3u) << "each is told, though another thread found them";
  misuse(1);
  stage.detach(0);
  EXPECT_EQ(answered, 4u);
  EXPECT_EQ(answered_with_the_lock, 0u);
}

/// A thread that ends leaves its blocks to others, and its batches: three that come and go take no more than one.
TEST(DelayedBatches, AThreadThatEndsLeavesNothing) {
  Stage<Delaying> stage;
  std::size_t meta = 0;
  for (unsigned round = 0; round < 3; ++round) {
    std::byte* left = nullptr;
    stage.as(0, [&](Delaying& h, auto& t) {
      const Block b = h.allocate(t, {.size = 200});
      left = b.ptr;
      h.release(t, h.block_of(b.ptr));
      EXPECT_NE(h.freed_at(left), nullptr);
    });
    stage.detach(0);
    EXPECT_EQ(stage.heap().freed_at(left), nullptr);
    Usage u{};
    stage.heap().tell(u);
    EXPECT_EQ(u.live, 0u);
    if (round == 0) meta = u.meta;
    EXPECT_EQ(u.meta, meta);
    stage.attach(0);
  }
}

/// A program that sleeps holds nothing here: whoever trims empties the quarantines of threads that release nothing meanwhile.
TEST(DelayedBatches, OneThreadEmptiesAll) {
#ifdef MORTISE_THREAD_SANITIZER
  const bool can_order = false;  // it knows nothing of membarrier
#else
  const bool can_order = os::register_order();  // where the kernel refuses it each thread empties its own
#endif
  Stage<Delaying> stage(2);
  std::byte *mine = nullptr, *open = nullptr;
  stage.as(0, [&](Delaying& h, auto& t) {
    for (unsigned i = 0; i < 200; ++i) h.release(t, h.block_of(mine = h.allocate(t, {.size = 64}).ptr));
    h.release(t, h.block_of(open = h.allocate(t, {.size = 3000}).ptr));
    EXPECT_NE(h.freed_at(mine), nullptr);
  });
  stage.as(1, [&](Delaying& h, auto& t) {
    h.trim(t);
    EXPECT_EQ(h.freed_at(mine) == nullptr, can_order);
    EXPECT_EQ(h.freed_at(open) == nullptr, can_order);
  });
  stage.as(0, [&](Delaying& h, auto& t) {  // and goes on as before
    const Block b = h.allocate(t, {.size = 64});
    h.release(t, h.block_of(b.ptr));
    EXPECT_NE(h.freed_at(b.ptr), nullptr);
  });
}

#if defined(__x86_64__) && !defined(MORTISE_THREAD_SANITIZER)  // which holds signals back

/// Batches of two, of which three wait at most: a few releases take every way there is.
TEST(DelayedBatches, AReleaseInASignalHandlerMeetsNothingHalfDone) {
  release_at_each_instruction<DelayedBatches<256, fills::Untouched, 128>::Over<Ledger>>();
}

#endif

}  // namespace
}  // namespace mortise::test
