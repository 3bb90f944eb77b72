// If this failed, a block that a signal handler released while its thread ended would be lost: it would lie in a quarantine that nobody
// looks into again.
#include "mortise/guard/delayed_free.hpp"

#include <cstring>

#include "mortise/backbone/slab.hpp"
#include "mortise/backbone/tlsf.hpp"
#include "mortise/cache/span_cache.hpp"
#include "mortise/guard/delayed_batches.hpp"
#include "mortise/guard/tail_checksum.hpp"
#include "mortise/source/mmap_heap.hpp"
#include "mortise/watch/annotated.hpp"
#include "tests/support/ledger.hpp"
#include "tests/support/stage.hpp"

namespace mortise::test {
namespace {

unsigned accused = 0;
void count(const Crime&) noexcept { ++accused; }

#if defined(__x86_64__)

/// All fit, so that no handler drains what it has interrupted half-way.
TEST(DelayedFree, AReleaseInASignalHandlerMeetsNothingHalfDone) {
  release_at_each_instruction<DelayedFree<1_KiB, order::Fifo, fills::Untouched, 16>::Over<Ledger>>();
}

/// What a handler releases may push the oldest out, and who gets that writes to it: an honest program had written after free.
TEST(DelayedFree, ALookAccusesNobodyWhoseBlocksLeaveInASignalHandler) {
  using Quarantine = DelayedFree<1_KiB, order::Fifo, fills::Zeroed<>, 16, on_fault::CallBack<count>>::Over<Ledger>;
  std::unique_ptr<Quarantine> heap;
  std::unique_ptr<Quarantine::Thread> thread;
  accused = 0;
  const unsigned instructions = EachInstruction::of(
      [&] {
        heap = std::make_unique<Quarantine>();
        thread = std::make_unique<Quarantine::Thread>();
        heap->attach(*thread);
        for (unsigned i = 0; i < 16; ++i) heap->release(*thread, heap->below.block(i));
      },
      [&] { heap->check_waiting(*thread); },
      [&] {
        for (unsigned i = 16; i < Ledger::kBlocks; ++i) heap->release(*thread, heap->below.block(i));
        for (unsigned i = 0; i < Ledger::kBlocks; ++i)
          if (heap->below.returned[i]) std::memset(heap->below.block(i).ptr, 1, 64);
      });
  EXPECT_GT(instructions, 100u);
  EXPECT_EQ(accused, 0u);
}

/// What lies below, where no class tells a size: a block of every 16 bytes up to 256, which comes back with its own size.
class Sized {
 public:
  struct Thread {};
  using Classes = NoClasses;
  static constexpr Progress kProgress = Progress::of(Guarantee::wait_free);
  static constexpr unsigned kBlocks = 16;

  Block allocate(Thread&, Request) noexcept { return {}; }
  void release(Thread&, Block b) noexcept { wrong += b.size != block_of(b.ptr).size; }
  bool holds(const std::byte*) noexcept { return true; }
  Block block_of(std::byte* p) noexcept { return block(static_cast<unsigned>((p - memory_) / 256)); }
  Block measure(Block b) noexcept { return block_of(b.ptr); }
  Block block(unsigned i) noexcept { return {memory_ + 256 * i, 16 * (i + 1)}; }
  unsigned wrong = 0;

 private:
  alignas(64) std::byte memory_[kBlocks * 256] = {};
};

/// A draw may meet the place that a release was about to write to when its handler came: the block got another one's length.
TEST(DelayedFree, ADrawInASignalHandlerLeavesWhatIsJustBeingWritten) {
  using Quarantine = DelayedFree<1_KiB, order::Randomised, fills::Untouched, 16>::Over<Sized>;
  for (unsigned round = 0; round < 40; ++round) {
    std::unique_ptr<Quarantine> heap;
    std::unique_ptr<Quarantine::Thread> thread;
    const auto release = [&](unsigned i) { heap->release(*thread, heap->below.block(i)); };
    const unsigned instructions = EachInstruction::of(
        [&] {
          if (heap) {
            heap->trim(*thread);
            ASSERT_EQ(heap->below.wrong, 0u);
          }
          heap = std::make_unique<Quarantine>();
          thread = std::make_unique<Quarantine::Thread>();
          heap->attach(*thread);
          for (unsigned i = 8; i < 14; ++i) release(i);
        },
        [&] { release(0); }, [&] { release(15); });
    EXPECT_GT(instructions, 20u);
  }
}

#endif

/// 1144 bytes in 64 places are 17 for each, of which 67 fit: three blocks of each round were overwritten in their places, and lost.
TEST(DelayedFree, HasAPlaceForEachThatItHasRoomFor) {
  using H = Stack<Layers<DelayedFree<1144, order::Fifo, fills::Untouched, 64>, Slab<>, SpanCache<>, PageIndex, MmapHeap<>>>;
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    for (int i = 0; i < 1000; ++i) h.release(t, h.allocate(t, {.size = 16}));
    h.trim(t);
    Usage u;
    h.tell(u);
    EXPECT_EQ(u.live, 0u);
  });
}

/// Each was looked at for as many bytes as another has: an honest program wrote after free.
TEST(DelayedFree, DrawsABlockWithItsSize) {
  using H = Stack<Layers<DelayedFree<16_KiB, order::Randomised, fills::Zeroed<>, 64, on_fault::CallBack<count>>, Tlsf<>, MmapHeap<>>>;
  Stage<H> stage;
  accused = 0;
  stage.as(0, [](H& h, auto& t) {
    for (std::size_t i = 0; i < 5000; ++i) {
      const Block b = h.allocate(t, {.size = i * 37 % 1500});
      std::memset(b.ptr, 1, b.size);
      h.release(t, h.block_of(b.ptr));
    }
    EXPECT_EQ(accused, 0u);
  });
}

/// What comes is counted by what it is when it goes: over blocks that end with their requests the room grew, beyond the places.
TEST(DelayedFree, KeepsItsBoundAboveExactSizes) {
  using H = Stack<Layers<DelayedFree<1_KiB, order::Fifo, fills::Untouched, 16>, TailChecksum<>, Slab<>, SpanCache<>, PageIndex, MmapHeap<>>>;
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    for (int i = 0; i < 3000; ++i) {
      h.release(t, h.block_of(h.allocate(t, {.size = static_cast<std::size_t>(i % 2 ? 129 : 200)}).ptr));
      ASSERT_LE(t.room, 1024);
    }
    h.trim(t);
    Usage u;
    h.tell(u);
    EXPECT_EQ(u.live, 0u);
  });
}

/// It would zero the tail of a block that is shorter than its class, and the guard below would take that for a crime.
TEST(DelayedFree, FillsNothingAboveAGuardOfTails) {
  using Tails = Stack<Layers<TailChecksum<>, Slab<>, SpanCache<>, PageIndex, MmapHeap<>>>;
  using Noted = Stack<Layers<Annotated<checker::Address>, Slab<>, SpanCache<>, PageIndex, MmapHeap<>>>;
  static_assert(FitsOn<DelayedFree<>, Tails> && FitsOn<DelayedFree<>, Noted>);
  static_assert(!FitsOn<DelayedFree<64_KiB, order::Fifo, fills::Zeroed<>>, Noted>);
  static_assert(!FitsOn<DelayedFree<64_KiB, order::Fifo, fills::Zeroed<>>, Tails>);
  static_assert(!FitsOn<DelayedBatches<64_KiB, fills::ZeroedStart<>>, Tails> && FitsOn<DelayedBatches<>, Tails>);
}

}  // namespace
}  // namespace mortise::test
