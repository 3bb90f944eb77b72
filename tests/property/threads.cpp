// Eight real threads on one heap: they allocate, hand blocks to each other, release what others allocated, end and begin again,
// while one of them trims and counts. If this failed, a program with threads would see its memory change under its hands.
//
// Under ThreadSanitizer, AddressSanitizer and UndefinedBehaviorSanitizer this runs with a core index for each thread; elsewhere
// once so and once with the kernel's restartable sequences.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "tests/property/model.hpp"

namespace mortise::test {
namespace {

constexpr unsigned kThreads = 8;
constexpr std::size_t kOperations = 100'000;  // of all threads together

struct Parcel {
  Block block;
  std::uint64_t tag;
};

/// Where threads leave blocks for others.
class Mailbox {
 public:
  void put(Parcel p) {
    const std::lock_guard guard(lock_);
    parcels_.push_back(p);
  }
  bool take(Parcel& p) {
    const std::lock_guard guard(lock_);
    if (parcels_.empty()) return false;
    p = parcels_.back();
    parcels_.pop_back();
    return true;
  }

 private:
  std::mutex lock_;
  std::vector<Parcel> parcels_;
};

template <class H> class Crowd {
 public:
  Crowd(H& heap, std::uint64_t seed, std::size_t operations) : heap_(heap), seed_(seed), operations_(operations) {}

  void run() {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i) threads.emplace_back([this, i] { live_twice(i); });
    for (auto& t : threads) t.join();
    typename H::Thread last{};
    attach_below(heap_, last);
    for (auto& box : boxes_)
      for (Parcel p; box.take(p);) release(last, p);
    detach_below(heap_, last);
    EXPECT_FALSE(spoilt_.load()) << "the contents of a live block changed";
    EXPECT_FALSE(unknown_.load()) << "a live block was not found by its pointer";
  }

 private:
  void live_twice(unsigned i) {
    Random random(seed_ * 1000 + i);
    for (int life = 0; life < 2; ++life) {
      typename H::Thread t{};
      attach_below(heap_, t);
      for (std::size_t n = operations_ / kThreads / 2; n > 0; --n) step(t, i, random);
      detach_below(heap_, t);
      own_area.index = 0;  // the next life is another thread's
    }
  }
  void step(typename H::Thread& t, unsigned i, Random& random) {
    const std::size_t dice = random.below(1000);
    if (i == 0 && dice == 0) {
      trim_below(heap_, t);
    } else if (i == 1 && dice == 0) {
      Usage u;
      tell_below(heap_, u);
      if constexpr (Purges<H>) heap_.purge_idle();
    } else if (dice < 500) {
      const Request r{.size = random.size(300'000)};
      Block b{};
      if constexpr (Hits<H>) b = heap_.allocate_hit(t, r);
      if (!b) b = heap_.allocate(t, r);
      if (!b) return;
      const std::uint64_t tag = random.next();
      Contents::write(b, tag);
      boxes_[random.below(kThreads)].put({b, tag});
    } else if (Parcel p; boxes_[random.below(kThreads)].take(p)) {
      release(t, p);
    }
  }
  [[gnu::noinline]] void release(typename H::Thread& t, Parcel p) {  // compiled once: layers are inlined into one another
    if (!Contents::are(p.block, p.tag, p.block.size)) spoilt_ = true;
    Block b = p.block;
    if constexpr (Locates<H>) {
      if (!heap_.holds(b.ptr)) unknown_ = true;
      b = heap_.block_of(b.ptr);
      if (b.size_class == kNoClass) b = heap_.measure(b);
    }
    if constexpr (Hits<H>) {
      if (b.size_class != kNoClass && heap_.release_hit(t, b)) return;
    }
    heap_.release(t, b);
  }

  H& heap_;
  std::uint64_t seed_;
  std::size_t operations_;
  Mailbox boxes_[kThreads];
  std::atomic<bool> spoilt_{false}, unknown_{false};
};

template <class E> class Threads : public ::testing::Test {
 public:
  static void run(const os::Facts& facts) {
    using Heap = Stack<typename E::List>;
    auto heap = std::make_unique<Heap>();
    ASSERT_TRUE(start_below(*heap, facts));
    Crowd<Heap>(*heap, 1, kOperations / E::kTraits.length_divisor).run();
    if constexpr (Audits<Heap>) heap->audit();
    if constexpr (Tells<Heap> && Purges<Heap>) {
      Usage u;
      heap->tell(u);
      EXPECT_TRUE(!E::kTraits.is_exact || u.live == 0) << u.live << " bytes live after everything was released";
      EXPECT_EQ(u.mapped, u.live + u.cached + u.dirty + u.purged);
    }
  }
};
#ifndef MORTISE_TEST_STACKS
#define MORTISE_TEST_STACKS Stacks
#endif
TYPED_TEST_SUITE(Threads, MORTISE_TEST_STACKS, EntryNames);

TYPED_TEST(Threads, ShareAHeapWithIndicesOfTheirOwn) { TestFixture::run(own_facts()); }

TYPED_TEST(Threads, ShareAHeapWithTheMachinesFacts) { TestFixture::run(os::read_facts(&own_area)); }

}  // namespace
}  // namespace mortise::test
