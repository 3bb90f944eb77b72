// If this fails, a block that waits is given out twice, too early or not at all, or a thread that looks in from outside reads what is being
// changed: the shipped layer is run with a signal handler that takes and releases between any two of the stores that others may see.
#define MORTISE_MODEL_SEES_GLANCES
#include "mortise/guard/delayed_reuse.hpp"

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
constexpr std::size_t kBytes = 64;
enum Place : unsigned { kProgram, kWaiting, kBelow };

/// What lies below: gives nothing, and takes each block back once.
class Ledger {
 public:
  struct Thread {};
  using Classes = NoClasses;
  static constexpr Progress kProgress = Progress::of(Guarantee::wait_free);
  static constexpr std::size_t kTag = 16, kChunkMin = 32;

  mortise::Block allocate(Thread&, Request) noexcept { return {}; }
  void release(Thread&, mortise::Block b) noexcept { put(b.ptr, kBelow, kWaiting); }
  void release_some(Thread&, std::byte* const* in, unsigned n) noexcept {
    for (unsigned i = 0; i < n; ++i) put(in[i], kBelow, kWaiting);
  }
  std::size_t chunk_bytes_of(std::byte*) noexcept { return kBytes; }
  bool holds(const std::byte*) noexcept { return true; }
  mortise::Block block_of(std::byte* p) noexcept { return {p, kBytes - kTag}; }
  mortise::Block measure(mortise::Block b) noexcept { return {b.ptr, kBytes - kTag}; }

  void put(std::byte* p, Place to, Place from) noexcept {
    const auto index = static_cast<unsigned>(reinterpret_cast<Block*>(p) - block);
    require(index < kBlocks, "what comes is no block");
    require(place[index].exchange(to, Order::acq_rel) == from, "a block goes twice, or comes from where it was not");
  }

  Block block[kBlocks];
  Atomic<unsigned> place[kBlocks];
};

/// One size; two blocks of it wait at least, three at most.
struct OneSize {
  static constexpr const char* kName = "OneSize";
  static constexpr unsigned kCount = 1;
  static constexpr std::size_t kMaxBytes = kBytes;
  static constexpr unsigned class_of(std::size_t) { return 1; }
  static constexpr std::size_t size_of(unsigned) { return kBytes; }
};

struct Quarantine {
  using Heap = DelayedReuse<2 * kBytes, kBytes, OneSize, 16>::Over<Ledger>;
  Heap heap;
  Heap::Thread thread[2];

  ~Quarantine() { g_signal = nullptr; }
  std::byte* at(unsigned i) { return reinterpret_cast<std::byte*>(&heap.below.block[i]); }
  void release(unsigned t, unsigned i) {
    heap.below.put(at(i), kWaiting, kProgram);
    const mortise::Block b{at(i), kBytes - Ledger::kTag};
    if (!heap.release_hit(thread[t], b)) heap.release(thread[t], b);
  }
  bool take(unsigned t) {
    const mortise::Block b = heap.allocate_hit(thread[t], {.size = 40});
    if (b) heap.below.put(b.ptr, kProgram, kWaiting);
    return static_cast<bool>(b);
  }
  unsigned waiting() {
    Usage u{};
    heap.tell(u);
    return static_cast<unsigned>(u.cached / kBytes);
  }
  /// Empties the quarantine: what waits has left then, and every block is where the ledger saw it last.
  void nothing_waits(unsigned t) {
    heap.trim(thread[t]);
    require(waiting() == 0, "what has left is counted as waiting");
    for (const auto& place : heap.below.place) require(place.load(Order::relaxed) != kWaiting, "a block is lost");
    heap.detach(thread[t]);
  }
};

/// The handler runs at most once, at any moment of what thread 0 does. It releases, and takes what has waited long enough.
struct Interrupted : Quarantine {
  static constexpr unsigned kThreads = 2, kOwn = 5;
  Atomic<int> raised;
  Shared<bool> has_handled{false};

  void handle() {
    if (has_handled || !raised.load(Order::relaxed)) return;
    has_handled = true;
    take(0);
    for (unsigned i = kOwn; i < kBlocks; ++i) release(0, i);
    take(0);
  }
  template <class Work> void interrupt(unsigned number, Work&& work) {
    if (number == 1) return raised.store(1, Order::relaxed);
    g_signal = [this] { handle(); };
    work();
    g_signal = nullptr;
  }
  void finish() { nothing_waits(0); }
};
struct WhileReleasing : Interrupted {
  WhileReleasing() { heap.attach(thread[0]); }
  void run(unsigned number) {
    interrupt(number, [this] {
      for (unsigned i = 0; i < kOwn; ++i) release(0, i);
    });
  }
};
struct WhileTaking : Interrupted {
  WhileTaking() {
    heap.attach(thread[0]);
    for (unsigned i = 0; i < 3; ++i) release(0, i);
  }
  void run(unsigned number) {
    interrupt(number, [this] {
      take(0);
      release(0, 3);
      take(0);
    });
  }
};
struct WhileTrimming : Interrupted {
  WhileTrimming() {
    heap.attach(thread[0]);
    for (unsigned i = 0; i < 3; ++i) release(0, i);
  }
  void run(unsigned number) {
    interrupt(number, [this] {
      heap.trim(thread[0]);
      release(0, 3);
    });
  }
};
struct WhileLooking : Interrupted {
  WhileLooking() { heap.attach(thread[0]); }
  void run(unsigned number) {
    interrupt(number, [this] {
      require(waiting() <= 3, "more wait than were released");
      heap.freed_at(at(0));
      release(0, 0);
    });
  }
};
struct WhileBeginningAndEnding : Interrupted {
  void run(unsigned number) {
    interrupt(number, [this] {
      heap.attach(thread[0]);
      release(0, 0);
      release(0, 1);
      heap.detach(thread[0]);
    });
  }
  void finish() {
    require(waiting() == 0, "what has left is counted as waiting");
    for (const auto& place : heap.below.place) require(place.load(Order::relaxed) != kWaiting, "a block is lost");
  }
};

/// A report asks where a block was released, and statistics are told, while a thread goes on and ends.
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
      take(0);
      return heap.detach(thread[0]);
    }
    require(heap.freed_at(at(5)) == nullptr, "a block that nobody released is told of");
    require(waiting() <= 3, "more wait than were released");
  }
  void finish() { require(waiting() == 0, "what has left is counted as waiting"); }
};

struct TwoThreadsComeAndGo : Quarantine {
  static constexpr unsigned kThreads = 2;
  void run(unsigned number) {
    heap.attach(thread[number]);
    for (unsigned i = 0; i < 3; ++i) release(number, 3 * number + i);
    take(number);
    heap.detach(thread[number]);
  }
  void finish() {
    require(waiting() == 0, "what has left is counted as waiting");
    for (const auto& place : heap.below.place) require(place.load(Order::relaxed) != kWaiting, "a block is lost");
  }
};

const Options kLong{.steps_max = 2000};

TEST(DelayedReuse, InterruptedWhileReleasing) { run<WhileReleasing>("a handler takes and releases while its thread releases", kLong); }
TEST(DelayedReuse, InterruptedWhileTaking) { run<WhileTaking>("... takes", kLong); }
TEST(DelayedReuse, InterruptedWhileTrimming) { run<WhileTrimming>("... trims", kLong); }
TEST(DelayedReuse, InterruptedWhileLooking) { run<WhileLooking>("... is counted and looked at", kLong); }
TEST(DelayedReuse, InterruptedWhileBeginningAndEnding) { run<WhileBeginningAndEnding>("... begins and ends", kLong); }
TEST(DelayedReuse, TwoThreadsComeAndGo) { run<TwoThreadsComeAndGo>("two threads come and go", kLong); }
TEST(DelayedReuse, LookedAt) { run<LookedAt>("looked at while a thread releases and ends", kLong); }

/// What waits is given out oldest first, and not before kBytes of later releases.
TEST(DelayedReuse, NothingIsGivenOutEarly) {
  static Quarantine q;
  q.heap.attach(q.thread[0]);
  q.release(0, 0);
  q.release(0, 1);
  EXPECT_FALSE(q.heap.allocate_hit(q.thread[0], {.size = 40}));
  q.release(0, 2);
  EXPECT_EQ(q.heap.allocate_hit(q.thread[0], {.size = 40}).ptr, q.at(0));
  EXPECT_FALSE(q.heap.allocate_hit(q.thread[0], {.size = 40}));
  EXPECT_EQ(q.waiting(), 2u);
  q.heap.detach(q.thread[0]);
}

}  // namespace
}  // namespace mortise::model
