// If this fails, a small block is lost or handed out twice when a core frees what another core's colour gave, or when a core in want
// takes a slab over from another colour: the shipped core cache over the shipped slabs, in two colours, with sections that are
// interrupted at every step.
#include <gtest/gtest.h>

#include <csetjmp>

#include "mortise/backbone/slab.hpp"
#include "mortise/cache/core_cache.hpp"
#include "owned_blocks.hpp"
#include "running.hpp"

namespace mortise {

std::jmp_buf* g_end_of_check = nullptr;  // while a scenario's end is looked at

/// A fault ends the execution: as a step of a thread, or as what a scenario left behind.
[[noreturn]] void report(Fault fault, mortise::Block) noexcept {
  model::require(false, name_of(fault));
  if (g_end_of_check) std::longjmp(*g_end_of_check, 1);
  std::abort();
}

}  // namespace mortise

namespace mortise::model {
namespace {

constexpr std::size_t kBytes = 128;

/// A window of a few spans, eight blocks each. A span that comes back stays away: the layers above may not touch it again.
class Window {
 public:
  struct Thread {};
  using Classes = NoClasses;
  static constexpr Progress kProgress = Progress::of(Guarantee::lock_free);
  static constexpr std::size_t kGranule = 8 * kBytes, kReach = 4 * kGranule;
  static constexpr unsigned kBlocks = kReach / kBytes;

  mortise::Block allocate(Thread&, Request r) noexcept {
    const std::size_t at = used_.fetch_add(r.size, Order::relaxed);
    return at + r.size <= kReach ? mortise::Block{origin() + at, r.size} : mortise::Block{};
  }
  void release(Thread&, mortise::Block b) noexcept { returned_.fetch_add(b.size, Order::relaxed); }
  void tell(Usage& u) noexcept { u.live += used_.load(Order::relaxed) - returned_.load(Order::relaxed); }
  std::byte* origin() noexcept { return reinterpret_cast<std::byte*>(block_); }
  std::byte* side(std::size_t bytes) noexcept { return meta(bytes); }
  bool back_side(std::byte*, std::size_t) noexcept { return true; }
  std::byte* meta(std::size_t bytes) noexcept {
    std::byte* const at = meta_ + meta_used_;
    meta_used_ = meta_used_ + bytes;
    return meta_used_ <= sizeof meta_ ? at : nullptr;
  }
  Block& block(unsigned i) noexcept { return block_[i].block; }

 private:
  union Place {  // what a program sees of a block, and the rest of it
    Place() : block() {}
    ~Place() {}
    Block block;
    std::byte bytes[kBytes];
  };
  Place block_[kBlocks];
  Atomic<std::size_t> used_{0}, returned_{0};
  Shared<std::size_t> meta_used_;
  alignas(64) std::byte meta_[16 * 1024] = {};
};

struct OneClass {
  static constexpr unsigned kCount = 1;
  static constexpr std::size_t kMaxBytes = kBytes;
  static constexpr unsigned class_of(std::size_t) { return 1; }
  static constexpr std::size_t size_of(unsigned c) { return c ? kBytes : 0; }
};
using Colours = classes::Coloured<OneClass, 2, kBytes>;
constexpr unsigned kColour0 = 1, kColour1 = 2;  // the classes of cores 0 and 1
using Cache = CoreCache<4 * kBytes>::Over<Slab<Colours>::Over<PageIndex::Over<Window>>>;

struct Cores {
  Cache cache;
  Window::Thread thread;

  Cores() { cache.start({.rseq = {.is_kernels = true}, .can_restart = true}); }
  Window& window() { return cache.below.below.below; }
  void on(int core) { hooks::run_on_core(core); }

  // As malloc and free do it.
  std::byte* take() {
    mortise::Block b = cache.allocate_hit(thread, {.size = 8});
    if (!b) b = cache.allocate(thread, {.size = 8});
    require(bool(b), "no block although there is memory");
    require(b.class_index() == kColour0 || b.class_index() == kColour1, "a block of a class that there is not");
    own(reinterpret_cast<FreeLink*>(b.ptr));
    return b.ptr;
  }
  void give(std::byte* p) {
    disown(reinterpret_cast<FreeLink*>(p));
    const mortise::Block b = cache.block_of(p);
    if (!cache.release_hit(thread, b)) cache.release(thread, b);
  }
  // Hits only: nothing on a miss.
  std::byte* take_hit() {
    const mortise::Block b = cache.allocate_hit(thread, {.size = 8});
    if (!b) return nullptr;
    require(b.class_index() == kColour0 || b.class_index() == kColour1, "a block of a class that there is not");
    own(reinterpret_cast<FreeLink*>(b.ptr));
    return b.ptr;
  }
  void take_all_of(unsigned c) {  // of the slabs of class `c`, to the last block
    std::byte* blocks[8];
    require(cache.below.allocate_batch(thread, c, blocks, 8) == 8, "a whole slab");
    for (std::byte* p : blocks) own(reinterpret_cast<FreeLink*>(p));
  }

  /// Everything that is cached goes down; then those blocks are given out that the program holds, and the slabs are sound.
  void finish() {
    std::jmp_buf end;
    g_end_of_check = &end;
    if (!setjmp(end)) check_all();
    g_end_of_check = nullptr;
  }
  void check_all() {
    cache.trim(thread);
    cache.audit();
    std::uint64_t out = 0, held = 0;
    cache.below.each_live([&](mortise::Block b) {
      const auto at = static_cast<std::size_t>(b.ptr - window().origin());
      require(at % kBytes == 0 && at / kBytes < Window::kBlocks, "a block that is none");
      out |= std::uint64_t{1} << at / kBytes;
    });
    for (unsigned i = 0; i < Window::kBlocks; ++i) held |= std::uint64_t(window().block(i).owned.get()) << i;
    require((held & ~out) == 0, "a block is free and with the program");
    require((out & ~held) == 0, "a block is lost");
    Usage u;
    cache.tell(u);
    require(u.live == static_cast<std::size_t>(std::popcount(held)) * kBytes, "the count of live blocks is wrong");
  }
};

/// A block of colour 0 is freed on core 1 while core 0 takes.
struct ForeignFree : Cores {
  static constexpr unsigned kThreads = 2;
  std::byte* const block = take();
  void run(unsigned number) {
    on(static_cast<int>(number));
    if (number == 0) take();
    else give(block);
  }
};

/// Core 1 frees a block more of colour 0 than its magazine holds: all go down to their owner's slabs, while core 0 misses.
struct ForeignSpill : Cores {
  static constexpr unsigned kThreads = 2;
  std::byte* more;
  ForeignSpill() {
    std::byte* blocks[5];
    for (std::byte*& p : blocks) p = take();
    take();  // the magazine of core 0 is empty: two refills of three
    on(1);
    for (unsigned i = 0; i < 4; ++i) give(blocks[i]);
    more = blocks[4];
    on(0);
  }
  void run(unsigned number) {
    on(static_cast<int>(number));
    if (number == 0) take();
    else give(more);
  }
};

/// Core 1 is in want, and colour 0 has a slab with room that it has not used since core 1 last asked.
struct InWant : Cores {
  std::byte* const block = take();  // two more of the slab are in the magazine of core 0
  InWant() { take_all_of(kColour1); }
};

/// Core 1 takes the slab over while the cache of core 0, with blocks of it, is emptied.
struct AdoptionAgainstDrain : InWant {
  static constexpr unsigned kThreads = 2;
  void run(unsigned number) {
    on(static_cast<int>(number));
    if (number == 0) cache.trim(thread);
    else take();
  }
};

/// ... while core 0 frees a block of it straight into the slabs, by the colour that the block had a moment ago.
struct AdoptionAgainstFree : InWant {
  static constexpr unsigned kThreads = 2;
  void run(unsigned number) {
    on(static_cast<int>(number));
    if (number == 1) return void(take());
    disown(reinterpret_cast<FreeLink*>(block));
    const mortise::Block b = cache.block_of(block);
    std::byte* p = b.ptr;
    cache.below.release_batch(thread, b.class_index(), &p, 1);
  }
};

/// ... while core 0 wants blocks of it itself.
struct AdoptionAgainstTake : InWant {
  static constexpr unsigned kThreads = 2;
  AdoptionAgainstTake() { take(), take(); }  // nothing in the magazine of core 0
  void run(unsigned number) {
    on(static_cast<int>(number));
    take();
  }
};

/// ... and frees one of its blocks, which is its own from now on, on core 0: there it is foreign.
struct AdoptionThenFrees : InWant {
  static constexpr unsigned kThreads = 2;
  void run(unsigned number) {
    on(static_cast<int>(number));
    if (number == 0) give(block);
    else give(take());
  }
};

/// One thread only hits. The other does everything else: stopped anywhere, with whatever lock, it is in nobody's way.
struct HitsAgainstAll : InWant {
  static constexpr unsigned kThreads = 2;
  std::byte* foreign;
  HitsAgainstAll() { foreign = take(); }
  void run(unsigned number) {
    on(static_cast<int>(number));
    if (number == 0) {
      const StepLimit bound("a hit of malloc and one of free", 40);
      if (std::byte* const p = take_hit()) {
        disown(reinterpret_cast<FreeLink*>(p));
        if (!cache.release_hit(thread, cache.block_of(p))) own(reinterpret_cast<FreeLink*>(p));
      }
    } else {
      take();
      give(foreign);
      cache.trim(thread);
    }
  }
};

const Options kOnce{.aborts_max = kAll ? 2u : 1u};

TEST(ColouredCache, ForeignFree) { run<ForeignFree>("a foreign free against a take", kOnce); }
TEST(ColouredCache, ForeignSpill) { run<ForeignSpill>("a foreign spill against a miss", kOnce); }
TEST(ColouredCache, AdoptionAgainstDrain) { run<AdoptionAgainstDrain>("adoption against a drain", kOnce); }
TEST(ColouredCache, AdoptionAgainstFree) { run<AdoptionAgainstFree>("adoption against a free", kOnce); }
TEST(ColouredCache, AdoptionAgainstTake) { run<AdoptionAgainstTake>("adoption against a miss", kOnce); }
TEST(ColouredCache, AdoptionThenFrees) { run<AdoptionThenFrees>("adoption, then frees on both cores", kOnce); }
TEST(ColouredCache, HitsAgainstAll) { check<HitsAgainstAll>("hits against adoption, foreign free and drain", kOnce); }

}  // namespace
}  // namespace mortise::model
