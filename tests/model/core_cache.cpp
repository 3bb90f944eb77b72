// If this fails, two threads of one core may be given the same block, or a block is lost or handed out twice when
// another core empties a core's cache: the shipped core cache is run with sections that are interrupted at every step.
#include "mortise/cache/core_cache.hpp"

#include <gtest/gtest.h>

#include "owned_blocks.hpp"
#include "running.hpp"

namespace mortise {

[[noreturn]] void report(Fault, mortise::Block) noexcept { std::abort(); }

}  // namespace mortise

namespace mortise::model {
namespace {

/// What lies below the cache: blocks and a word that says which are free.
template <unsigned kBlocks> class Store {
 public:
  struct Thread {};
  struct Classes {
    static constexpr unsigned kCount = 1;
    static constexpr std::size_t kMaxBytes = 64;
    static constexpr unsigned class_of(std::size_t) { return 1; }
    static constexpr std::size_t size_of(unsigned) { return 64; }
  };
  static constexpr Progress kProgress = Progress::of(Guarantee::lock_free);

  mortise::Block allocate(Thread& t, Request) noexcept {
    std::byte* p = nullptr;
    return allocate_batch(t, 1, &p, 1) ? mortise::Block{p, 64, 1} : mortise::Block{};
  }
  void release(Thread& t, mortise::Block b) noexcept { release_batch(t, 1, &b.ptr, 1); }
  unsigned allocate_batch(Thread&, unsigned, std::byte** out, unsigned n) noexcept {
    require(n <= most_asked, "a magazine's limit has outgrown what its class may hold");
    unsigned seen = free_.load(Order::acquire), taken;
    do {
      taken = 0;
      for (unsigned i = 0, left = n; i < kBlocks && left; ++i)
        if (seen & 1u << i) taken |= 1u << i, --left;
      if (!taken) return 0;
    } while (!free_.compare_exchange_strong(seen, seen & ~taken, Order::acq_rel));
    unsigned got = 0;
    for (unsigned i = 0; i < kBlocks; ++i)
      if (taken & 1u << i) out[got++] = reinterpret_cast<std::byte*>(&block_[i]);
    return got;
  }
  void release_batch(Thread&, unsigned, std::byte** in, unsigned n) noexcept {
    unsigned bits = 0;
    for (unsigned i = 0; i < n; ++i) {
      const auto index = static_cast<unsigned>(reinterpret_cast<Block*>(in[i]) - block_);
      require(index < kBlocks && !(bits & 1u << index),
              "a block comes back that was never handed out, or twice at once");
      bits |= 1u << index;
    }
    require((free_.fetch_or(bits, Order::acq_rel) & bits) == 0, "a block comes back twice");
    if (takes_its_time) hooks::pause(std::source_location::current());
  }
  std::byte* meta(std::size_t bytes) noexcept {
    std::byte* const at = meta_ + used_;
    used_ = used_ + bytes;
    return used_ <= sizeof meta_ ? at : nullptr;
  }

  unsigned free_blocks() { return free_.load(Order::relaxed); }
  Block block_[kBlocks];
  unsigned most_asked = kBlocks;
  bool takes_its_time = false;  ///< a thread may stop behind a release

 private:
  Atomic<unsigned> free_{(1u << kBlocks) - 1};
  Shared<std::size_t> used_;
  alignas(64) std::byte meta_[8192] = {};
};

/// Threads on cores; a program that writes into the blocks it holds. Magazines of so many blocks at most, until they get more slots.
template <unsigned kSlots, unsigned kBlocks = 6>
struct CoresWith {
  CoreCache<64 * kSlots>::template Over<Store<kBlocks>> cache;
  typename Store<kBlocks>::Thread thread;
  Atomic<std::byte*> held[4];

  /// `warm`: so many blocks lie in the magazine of core 0 at the start.
  explicit CoresWith(unsigned warm) {
    os::leaves_its_core = false;
    cache.start({.rseq = {.is_kernels = true}, .can_restart = true});
    mortise::Block block[kBlocks];
    for (unsigned i = 0; i < warm; ++i) block[i] = cache.allocate(thread, {.size = 8});
    for (unsigned i = 0; i < warm; ++i) cache.release(thread, block[i]);
  }
  std::byte* take() {
    const mortise::Block b = cache.allocate(thread, {.size = 8});
    if (b) own(reinterpret_cast<FreeLink*>(b.ptr));
    return b.ptr;
  }
  void take_hit() {  // nothing on a miss
    const mortise::Block b = cache.allocate_hit(thread, {.size = 8});
    if (b) own(reinterpret_cast<FreeLink*>(b.ptr));
  }
  void give(std::byte* p) {
    if (!p) return;
    disown(reinterpret_cast<FreeLink*>(p));
    cache.release(thread, {p, 64, 1});
  }
  void on(int core) { hooks::run_on_core(core); }

  /// Everything that is cached goes down; then each block is either free or held by the program.
  void finish() {
    cache.trim(thread);
    unsigned held_bits = 0;
    for (unsigned i = 0; i < kBlocks; ++i)
      if (cache.below.block_[i].owned.get()) held_bits |= 1u << i;
    require((held_bits & cache.below.free_blocks()) == 0, "a block is free and with the program");
    require((held_bits | cache.below.free_blocks()) == (1u << kBlocks) - 1, "a block is lost");
  }
};

using Cores = CoresWith<4>;

struct TwoThreadsOfOneCore : Cores {
  static constexpr unsigned kThreads = 2;
  TwoThreadsOfOneCore() : Cores(2) {}
  void run(unsigned) {
    on(0);
    give(take());
    take();
  }
};

struct MissesOfOneCore : Cores {  // an empty magazine: both refill it
  static constexpr unsigned kThreads = 2;
  MissesOfOneCore() : Cores(0) {}
  void run(unsigned) {
    on(0);
    take();
  }
};

struct SpillAgainstHits : Cores {  // a full magazine: one thread gives back a block more than it holds
  static constexpr unsigned kThreads = 2;
  std::byte* more;
  SpillAgainstHits() : Cores(0) {
    std::byte* taken[5];
    for (std::byte*& p : taken) p = take();
    for (unsigned i = 0; i < 4; ++i) give(taken[i]);
    more = taken[4];
  }
  void run(unsigned number) {
    on(0);
    if (number == 0) give(more);
    else take();
  }
};

struct DrainOfAnotherCore : Cores {
  static constexpr unsigned kThreads = 2;
  DrainOfAnotherCore() : Cores(2) {}
  void run(unsigned number) {
    on(static_cast<int>(number));
    if (number == 1) cache.trim(thread);
    else give(take()), take();
  }
};

struct DrainWhileTwoThreadsShareACore : Cores {
  static constexpr unsigned kThreads = 3;
  DrainWhileTwoThreadsShareACore() : Cores(2) {}
  void run(unsigned number) {
    on(number == 2 ? 1 : 0);
    if (number == 2) cache.trim(thread);
    else take_hit();
  }
};

struct TwoDrains : Cores {
  static constexpr unsigned kThreads = 3;
  TwoDrains() : Cores(1) {}
  void run(unsigned number) {
    on(static_cast<int>(number));
    if (number == 0) take();
    else cache.trim(thread);
  }
};

struct FirstUseOfTwoCores : Cores {  // both make their sets
  static constexpr unsigned kThreads = 2;
  FirstUseOfTwoCores() : Cores(0) {}
  void run(unsigned number) {
    on(static_cast<int>(number));
    take();
  }
};

struct RefillAgainstGives : Cores {  // what a miss brings does not fit any more: another thread of the core has freed meanwhile
  static constexpr unsigned kThreads = 2;
  std::byte* held[3];
  RefillAgainstGives() : Cores(0) {
    for (std::byte*& p : held) p = take();
    cache.trim(thread);
  }
  void run(unsigned number) {
    on(0);
    if (number == 0) return void(take());
    for (std::byte* const p : held) give(p);
  }
};

struct BatchAgainstTake : Cores {  // more blocks at once than the magazine has room for
  static constexpr unsigned kThreads = 2;
  std::byte* batch[3];
  BatchAgainstTake() : Cores(0) {
    std::byte* warm[3];
    for (std::byte*& p : warm) p = take();
    for (std::byte*& p : batch) p = take();
    cache.trim(thread);
    for (std::byte* const p : warm) give(p);
    for (std::byte* const p : batch) disown(reinterpret_cast<FreeLink*>(p));
  }
  void run(unsigned number) {
    on(0);
    if (number == 0) cache.release_batch(thread, 1, batch, 3);
    else take_hit();
  }
};

/// A fork while another thread drains: in the child that thread stops where it was, and what it was moving may be lost, but no block
/// is free and in a magazine.
struct ForkWhileAnotherDrains : Cores {
  static constexpr unsigned kThreads = 2;
  ForkWhileAnotherDrains() : Cores(2) { cache.below.takes_its_time = true; }
  void run(unsigned number) {
    on(static_cast<int>(number));
    if (number == 1) cache.trim(thread);
  }
  void stopped() {
    cache.reset_after_fork();
    on(0);
    const unsigned free = cache.below.free_blocks();
    while (const mortise::Block b = cache.allocate_hit(thread, {.size = 8})) {
      own(reinterpret_cast<FreeLink*>(b.ptr));
      require(!(free & 1u << (reinterpret_cast<Block*>(b.ptr) - cache.below.block_)), "a block is free and in a magazine");
    }
  }
};

struct LimitsGrowAtOnce : CoresWith<10> {  // both double the limit of one magazine, from 4 towards 10
  static constexpr unsigned kThreads = 2;
  LimitsGrowAtOnce() : CoresWith(0) {
    for (int i = 0; i < 3; ++i) take();
    cache.below.most_asked = 10 / 2 + 1;
  }
  void run(unsigned) {
    on(0);
    take();
  }
};

/// A program that builds and takes down more than a magazine has slots for: the next block that has no room moves it to others.
struct AboutToMove : CoresWith<10, 28> {
  static constexpr unsigned kThreads = 2;
  std::byte* held[28];
  AboutToMove() : CoresWith(0) {
    for (std::byte*& p : held) p = take();
    for (std::byte* const p : held) give(p);
    for (unsigned i = 0; i < 14; ++i) held[i] = take();
    for (unsigned i = 6; i < 14; ++i) give(held[i]);
    for (unsigned i = 0; i < kThreads; ++i) disown(reinterpret_cast<FreeLink*>(held[i]));
  }
  void give_one(unsigned i) { cache.release(thread, {held[i], 64, 1}); }
};

struct MoveAgainstHits : AboutToMove {
  void run(unsigned number) {
    on(0);
    if (number == 0) give_one(0), give_one(1);
    else take_hit(), take_hit();
  }
};

struct MoveFromAnotherCore : AboutToMove {  // the thread with the miss goes on elsewhere before it has closed the set
  MoveFromAnotherCore() { os::leaves_its_core = true; }
  void run(unsigned number) {
    on(0);
    if (number == 1) take_hit();
    give_one(number);
  }
};

struct TwoMoves : AboutToMove {
  void run(unsigned number) {
    on(0);
    give_one(number);
  }
};

struct MoveAgainstADrain : AboutToMove {
  void run(unsigned number) {
    on(static_cast<int>(number));
    if (number == 0) give_one(0);
    else cache.trim(thread), give_one(1);
  }
};

const Options kOnce{.aborts_max = kAll ? 2u : 1u};

TEST(CoreCache, TwoThreadsOfOneCore) { run<TwoThreadsOfOneCore>("two threads of one core", kOnce); }
TEST(CoreCache, MissesOfOneCore) { run<MissesOfOneCore>("two misses of one core", kOnce); }
TEST(CoreCache, SpillAgainstHits) { run<SpillAgainstHits>("a spill against a hit", kOnce); }
TEST(CoreCache, DrainWhileTwoThreadsShareACore) {
  run<DrainWhileTwoThreadsShareACore>("drain, two threads there", kOnce);
}
TEST(CoreCache, TwoDrains) { run<TwoDrains>("two drains"); }
TEST(CoreCache, RefillAgainstGives) { run<RefillAgainstGives>("a miss against three frees", kOnce); }
TEST(CoreCache, BatchAgainstTake) { run<BatchAgainstTake>("a batch that does not fit against a hit", kOnce); }
TEST(CoreCache, ForkWhileAnotherDrains) { run<ForkWhileAnotherDrains>("a fork while another thread drains", {.freeze = true}); }
TEST(CoreCache, LimitsGrowAtOnce) { run<LimitsGrowAtOnce>("two misses double a limit", kOnce); }
TEST(CoreCache, MoveAgainstHits) { run<MoveAgainstHits>("a magazine moves, hits", kOnce); }
TEST(CoreCache, TwoMoves) { run<TwoMoves>("two threads would move a magazine", kOnce); }
TEST(CoreCache, MoveAgainstADrain) { run<MoveAgainstADrain>("a magazine moves, a drain", kOnce); }
TEST(CoreCache, MoveFromAnotherCore) { run<MoveFromAnotherCore>("a magazine is to move, from another core", kOnce); }
TEST(CoreCache, FirstUseOfTwoCores) { run<FirstUseOfTwoCores>("first use of two cores"); }
// Last: it takes a minute, and what a seed breaks is found by the others.
TEST(CoreCache, DrainOfAnotherCore) { run<DrainOfAnotherCore>("drain of another core"); }

}  // namespace
}  // namespace mortise::model
