// If this fails, a block that waits in the quarantine is lost, leaves twice, or a thread that looks in from outside reads a list that
// is being changed: the shipped layer is run in every interleaving that matters, with a signal handler that releases between any two
// of the stores that others may see.
#define MORTISE_MODEL_SEES_GLANCES
#include "mortise/guard/delayed_batches.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "owned_blocks.hpp"
#include "running.hpp"

namespace mortise {

[[noreturn]] void report(Fault, mortise::Block) noexcept { std::abort(); }

}  // namespace mortise

namespace mortise::model {
namespace {

constexpr unsigned kBlocks = 8;

/// What lies below: takes each block back once.
class Ledger {
 public:
  struct Thread {};
  struct Classes {
    static constexpr unsigned kCount = 1;
    static constexpr std::size_t kMaxBytes = 64;
    static constexpr unsigned class_of(std::size_t) { return 1; }
    static constexpr std::size_t size_of(unsigned) { return 64; }
  };
  static constexpr Progress kProgress = Progress::of(Guarantee::wait_free);

  mortise::Block allocate(Thread&, Request) noexcept { return {}; }
  void release(Thread& t, mortise::Block b) noexcept { release_batch(t, 1, &b.ptr, 1); }
  unsigned allocate_batch(Thread&, unsigned, std::byte**, unsigned) noexcept { return 0; }
  void release_batch(Thread&, unsigned, std::byte** in, unsigned n) noexcept {
    for (unsigned i = 0; i < n; ++i) {
      const auto index = static_cast<unsigned>(reinterpret_cast<Block*>(in[i]) - block);
      require(index < kBlocks, "what leaves is no block");
      require((returned.fetch_or(1u << index, Order::acq_rel) & 1u << index) == 0, "a block leaves twice");
      own(&block[index].link);
    }
  }
  bool holds(const std::byte*) noexcept { return true; }
  mortise::Block block_of(std::byte* p) noexcept { return {p, 64, 1}; }
  mortise::Block measure(mortise::Block b) noexcept { return {b.ptr, 64, 1}; }
  std::byte* meta(std::size_t bytes) noexcept {
    std::byte* const at = memory_ + used_;
    used_ = used_ + bytes;
    require(used_ <= sizeof memory_, "the scenario has too little memory");
    return at;
  }

  Block block[kBlocks];
  Atomic<unsigned> returned;

 private:
  Shared<std::size_t> used_;
  alignas(64) std::byte memory_[4096] = {};  // cleared for every execution
};

/// Batches of two blocks; one that is full leaves when the next one is.
struct Quarantine {
  using Heap = DelayedBatches<128, fills::Untouched, 128>::Over<Ledger>;
  Heap heap;
  Heap::Thread thread[2];

  ~Quarantine() { g_signal = nullptr; }
  void release(unsigned t, unsigned i) {
    const mortise::Block b{reinterpret_cast<std::byte*>(&heap.below.block[i]), 64, 1};
    if (!heap.release_hit(thread[t], b)) heap.release(thread[t], b);
  }
  unsigned in_transit() {
    Usage u{};
    heap.tell(u);
    return static_cast<unsigned>(u.cached / 64);
  }
  void all_have_left(unsigned blocks) {
    require(heap.below.returned.load(Order::relaxed) == (1u << blocks) - 1, "a block is lost");
    require(in_transit() == 0, "what waits is counted wrongly");
  }
};

/// The handler runs at most once, at any moment of what thread 0 does.
template <unsigned kHandlers> struct Interrupted : Quarantine {
  static constexpr unsigned kThreads = 2;
  static constexpr unsigned kOwn = kBlocks - kHandlers;
  Atomic<int> raised;
  Shared<bool> has_handled{false};

  void handle() {
    if (has_handled || !raised.load(Order::relaxed)) return;
    has_handled = true;
    for (unsigned i = kOwn; i < kBlocks; ++i) release(0, i);
  }
  template <class Work> void interrupt(unsigned number, Work&& work) {
    if (number == 1) return raised.store(1, Order::relaxed);
    g_signal = [this] { handle(); };
    work();
    g_signal = nullptr;
  }
  void finish() {
    heap.trim(thread[0]);
    require(in_transit() == 0, "what has left is counted as waiting");
    heap.detach(thread[0]);
    all_have_left(has_handled ? kBlocks : kOwn);
  }
};
struct WhileReleasing : Interrupted<2> {
  WhileReleasing() { heap.attach(thread[0]); }
  void run(unsigned number) {
    interrupt(number, [this] {
      for (unsigned i = 0; i < kOwn; ++i) release(0, i);
    });
  }
};
struct WhileTrimming : Interrupted<3> {
  WhileTrimming() {
    heap.attach(thread[0]);
    for (unsigned i = 0; i < kOwn; ++i) release(0, i);
  }
  void run(unsigned number) {
    interrupt(number, [this] { heap.trim(thread[0]); });
  }
};
/// Statistics and reports look at another thread's batches, under the lock, with their own thread's quarantine open.
struct WhileLooking : Interrupted<2> {
  WhileLooking() {
    heap.attach(thread[0]);
    heap.attach(thread[1]);
    release(1, kOwn - 1);
  }
  void run(unsigned number) {
    interrupt(number, [this] {
      require(in_transit() <= 3, "more wait than were released");
      heap.freed_at(reinterpret_cast<std::byte*>(&heap.below.block[0]));
      for (unsigned i = 0; i < kOwn - 1; ++i) release(0, i);
    });
  }
  void finish() {
    heap.trim(thread[1]);
    heap.detach(thread[1]);
    Interrupted<2>::finish();
  }
};
struct WhileBeginningAndEnding : Interrupted<3> {
  void run(unsigned number) {
    interrupt(number, [this] {
      heap.attach(thread[0]);
      for (unsigned i = 0; i < kOwn; ++i) release(0, i);
      heap.detach(thread[0]);
    });
  }
};

/// One thread comes and goes and leaves its batches to another, which comes as well.
struct TwoThreadsComeAndGo : Quarantine {
  static constexpr unsigned kThreads = 2;
  void run(unsigned number) {
    heap.attach(thread[number]);
    for (unsigned i = 0; i < 3; ++i) release(number, 3 * number + i);
    heap.detach(thread[number]);
  }
  void finish() { all_have_left(6); }
};

/// A report asks where a block was released, and statistics are told, while a thread goes on.
struct LookedAt : Quarantine {
  static constexpr unsigned kThreads = 2;
  LookedAt() {
    heap.attach(thread[0]);
    release(0, 0);
  }
  void run(unsigned number) {
    if (number == 0) {
      release(0, 1);
      release(0, 2);
      return heap.detach(thread[0]);
    }
    require(heap.freed_at(reinterpret_cast<std::byte*>(&heap.below.block[5])) == nullptr, "a block that nobody released is told of");
    require(in_transit() <= 4, "more wait than were released");
  }
  void finish() { all_have_left(3); }
};

/// One thread empties what another one holds that may be releasing, may be taking another batch, and may be ending.
template <bool kEnds> struct EmptiedFromOutside : Quarantine {
  static constexpr unsigned kThreads = 2;
  static constexpr unsigned kBefore = 3, kAll = kEnds ? 4 : 5;
  EmptiedFromOutside() {
    heap.start({});
    heap.attach(thread[0]);
    for (unsigned i = 0; i < kBefore; ++i) release(0, i);
  }
  void run(unsigned number) {
    if (number == 1) return (void)heap.trim(thread[1]);
    for (unsigned i = kBefore; i < kAll; ++i) release(0, i);
    if (kEnds) heap.detach(thread[0]);
  }
  void finish() {
    if (!kEnds) heap.trim(thread[1]);
    all_have_left(kAll);
    if (!kEnds) heap.detach(thread[0]);
  }
};

const Options kLong{.steps_max = 2000};

TEST(DelayedBatches, InterruptedWhileReleasing) { run<WhileReleasing>("a handler releases while its thread releases", kLong); }
TEST(DelayedBatches, InterruptedWhileTrimming) { run<WhileTrimming>("... trims", kLong); }
TEST(DelayedBatches, InterruptedWhileLooking) { run<WhileLooking>("... is counted and looked at", kLong); }
TEST(DelayedBatches, InterruptedWhileBeginningAndEnding) { run<WhileBeginningAndEnding>("... begins and ends", kLong); }
TEST(DelayedBatches, EmptiedWhileReleasing) { run<EmptiedFromOutside<false>>("emptied from outside while its thread releases", kLong); }
TEST(DelayedBatches, EmptiedWhileEnding) { run<EmptiedFromOutside<true>>("... and ends", kLong); }
TEST(DelayedBatches, LookedAt) { run<LookedAt>("looked at while a thread releases and ends", kLong); }
TEST(DelayedBatches, TwoThreadsComeAndGo) {  // the longest comes last
  run<TwoThreadsComeAndGo>("two threads come and go", kLong);
}

}  // namespace
}  // namespace mortise::model
