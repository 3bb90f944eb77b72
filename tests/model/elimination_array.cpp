// If this fails, two threads may be given the same block, or a block is lost, when one that finds no memory empties what another keeps:
// the shipped array is run in every interleaving that matters, over a backbone that has so many blocks and no more.
#include "mortise/cache/elimination_array.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "owned_blocks.hpp"
#include "running.hpp"

namespace mortise {

[[noreturn]] void report(Fault, mortise::Block) noexcept { std::abort(); }

}  // namespace mortise

namespace mortise::model {
namespace {

constexpr unsigned kBlocks = 4;
constexpr std::size_t kBlockBytes = 24;

/// What lies below: blocks of one size and a word that says which are free.
class Store {
 public:
  struct Thread {};
  using Classes = NoClasses;
  static constexpr Progress kProgress = Progress::of(Guarantee::lock_free);
  static constexpr std::size_t kTag = 8, kChunkMin = 32;

  mortise::Block allocate(Thread&, Request) noexcept {
    unsigned seen = free_.load(Order::acquire), taken;
    do {
      if (!seen) return {};
      taken = seen & -seen;
    } while (!free_.compare_exchange_strong(seen, seen & ~taken, Order::acq_rel));
    return {reinterpret_cast<std::byte*>(&block_[std::countr_zero(taken)]), kBlockBytes};
  }
  void release(Thread& t, mortise::Block b) noexcept { release_some(t, &b.ptr, 1); }
  void release_some(Thread&, std::byte* const* in, unsigned n) noexcept {
    unsigned bits = 0;
    for (unsigned i = 0; i < n; ++i) {
      const auto index = static_cast<unsigned>(reinterpret_cast<Block*>(in[i]) - block_);
      require(index < kBlocks && !(bits & 1u << index), "a block comes back that was never handed out, or twice at once");
      bits |= 1u << index;
    }
    require((free_.fetch_or(bits, Order::acq_rel) & bits) == 0, "a block comes back twice");
  }
  std::size_t chunk_bytes_of(std::byte*) noexcept { return kBlockBytes + kTag; }
  bool holds(const std::byte*) noexcept { return true; }
  mortise::Block block_of(std::byte* p) noexcept { return {p, kBlockBytes}; }
  mortise::Block measure(mortise::Block b) noexcept { return {b.ptr, kBlockBytes}; }

  unsigned free_blocks() { return free_.load(Order::relaxed); }
  Block block_[kBlocks];

 private:
  Atomic<unsigned> free_{(1u << kBlocks) - 1};
};

/// `kDepth` slots for the size of the blocks, one place to wait: a third block and a fourth go below together.
template <unsigned kDepth> struct Threads {
  using Heap = typename EliminationArray<classes::Geometric<1, 1_KiB>, kDepth, 1_KiB, 2>::template Over<Store>;
  Heap heap;
  typename Heap::Thread thread[3];

  Threads() {
    for (auto& t : thread) heap.attach(t);
  }
  std::byte* take(unsigned t) {
    const mortise::Block b = heap.allocate(thread[t], {.size = kBlockBytes});
    if (b) own(reinterpret_cast<FreeLink*>(b.ptr));
    return b.ptr;
  }
  void give(unsigned t, std::byte* p) {
    if (!p) return;
    disown(reinterpret_cast<FreeLink*>(p));
    heap.release(thread[t], {p, 0});
  }
  /// What is kept goes below; then each block is either free or held by the program.
  void finish() {
    heap.trim(thread[0]);
    unsigned held = 0;
    for (unsigned i = 0; i < kBlocks; ++i)
      if (heap.below.block_[i].owned.get()) held |= 1u << i;
    require((held & heap.below.free_blocks()) == 0, "a block is free and with the program");
    require((held | heap.below.free_blocks()) == (1u << kBlocks) - 1, "a block is lost");
  }
};

/// One keeps blocks and takes them back while the other, for whom none is left, empties what is kept.
template <unsigned kDepth> struct Emptied : Threads<kDepth> {
  static constexpr unsigned kThreads = 2;
  std::byte* held[kBlocks];
  Emptied() {
    for (std::byte*& p : held) p = this->take(0);
    this->give(0, held[0]);
  }
  void run(unsigned number) {
    if (number == 1) {
      this->give(1, this->take(1));
      return;
    }
    this->take(0);
    this->give(0, held[1]);
  }
};
/// A free that finds all places taken, while another thread empties them.
struct EmptiedWhileFull : Threads<1> {
  static constexpr unsigned kThreads = 2;
  std::byte* held[kBlocks];
  EmptiedWhileFull() {
    for (std::byte*& p : held) p = take(0);
    give(0, held[0]);
    give(0, held[1]);
  }
  void run(unsigned number) {
    if (number == 1) heap.trim(thread[1]);
    else give(0, held[2]), take(0);
  }
};
/// Two find no memory at once.
struct TwoEmpty : Emptied<1> {
  static constexpr unsigned kThreads = 3;
  void run(unsigned number) {
    if (number == 0) give(0, held[1]);
    else take(number);
  }
};
/// A thread ends while another empties what it keeps.
struct EmptiedAtItsEnd : Emptied<1> {
  void run(unsigned number) {
    if (number == 0) heap.detach(thread[0]);
    else take(1);
  }
};

/// Three free and allocate at once: two whose places are taken, and one that empties everything.
struct ThreeAtOnce : Threads<1> {
  static constexpr unsigned kThreads = 3;
  std::byte* held[kBlocks];
  ThreeAtOnce() {
    for (std::byte*& p : held) p = take(0);
    give(0, held[0]);
    give(1, held[1]);
  }
  void run(unsigned number) {
    if (number == 2) return void(heap.trim(thread[2]));
    give(number, held[2 + number]);
    if (number == 0) take(0);
  }
};
/// As above, but both allocate, and the third finds no memory.
struct ThreeAllocateAtOnce : ThreeAtOnce {
  void run(unsigned number) {
    if (number == 2) return give(2, take(2));
    give(number, held[2 + number]);
    take(number);
  }
};
/// What a thread frees after its end goes below.
struct FreedAfterTheEnd : Emptied<2> {
  void run(unsigned number) {
    if (number == 1) return void(heap.trim(thread[1]));
    heap.detach(thread[0]);
    give(0, held[1]);
  }
};

/// `most`: the search may give up after so many executions; 0 means that it must come to its end.
/// As many executions as that and no more.
template <class Scenario> void run_some(const char* what, std::uint64_t most) {
  const Report report = explore<Scenario>({.executions_max = most});
  EXPECT_TRUE(report.passed() || (report.failure.empty() && report.executions + report.pruned == most)) << report.text();
  std::printf("%s: %s", what, report.text().c_str());
}

TEST(EliminationArray, Emptied) { run<Emptied<1>>("emptied, one slot"); }
TEST(EliminationArray, EmptiedOfTwoSlots) { run<Emptied<2>>("emptied, two slots"); }
TEST(EliminationArray, EmptiedWhileFull) { run<EmptiedWhileFull>("emptied while a free finds it full"); }
TEST(EliminationArray, TwoEmpty) { run<TwoEmpty>("two find no memory"); }
TEST(EliminationArray, EmptiedAtItsEnd) { run<EmptiedAtItsEnd>("a thread ends meanwhile"); }
TEST(EliminationArray, ThreeAtOnce) { run<ThreeAtOnce>("three free and allocate at once"); }
TEST(EliminationArray, ThreeAllocateAtOnce) {
  if (kAll) run_some<ThreeAllocateAtOnce>("three allocate at once, one without memory", 1'000'000);
}
TEST(EliminationArray, FreedAfterTheEnd) { run<FreedAfterTheEnd>("a free after the end"); }

}  // namespace
}  // namespace mortise::model
