// Times the blocks that go by: how long the layers below take for one allocate and for one release, in logarithmic
// buckets.
//
// Where it stands is part of the question: on top it times what the program feels, below a cache what the cache's
// misses cost. For programs that are not composed of layers, and for allocators that are not ours, `mortise latency`
// puts the same buckets in front of malloc (cli/latency/).
//
// Progress: as below; counting is an atomic addition, which threads share. Two readings of the CPU's counter a call,
// some 20 ns. For instruments and tests, not for the allocators that ship. Placement: anywhere.
#pragma once

#include "mortise/core/core.hpp"
#include "mortise/data/log_histogram.hpp"
#include "mortise/os/clock.hpp"
#include "mortise/sync/atomics.hpp"

namespace mortise {

/// Durations in ticks of the clock, from any thread. Lock-free; reading while others count may miss the latest.
class LatencyHistogram {
 public:
  using Buckets = LogBuckets<>;

  void add(std::uint64_t ticks) noexcept {
    counts_[Buckets::bucket_of(ticks)].fetch_add(1, Order::relaxed);
    std::uint64_t worst = worst_.load(Order::relaxed);
    while (worst < ticks && !worst_.compare_exchange_weak(worst, ticks, Order::relaxed)) {
    }
  }

  std::uint64_t count() const noexcept {
    std::uint64_t sum = 0;
    for (const auto& c : counts_) sum += c.load(Order::relaxed);
    return sum;
  }
  std::uint64_t worst() const noexcept { return worst_.load(Order::relaxed); }

  /// The duration that at most one in `one_in` calls exceeded, rounded up to its bucket's end; 0 without calls.
  /// O(buckets).
  std::uint64_t exceeded_by_one_in(std::uint64_t one_in) const noexcept {
    const std::uint64_t all = count(), above_max = all / one_in;
    std::uint64_t above = 0;
    for (unsigned b = Buckets::kCount; b-- > 0;) {
      above += counts_[b].load(Order::relaxed);
      if (above > above_max) return Buckets::floor_of(b + 1) - 1 < worst() ? Buckets::floor_of(b + 1) - 1 : worst();
    }
    return 0;
  }

 private:
  Atomic<std::uint64_t> counts_[Buckets::kCount]{};
  Atomic<std::uint64_t> worst_{0};
};

struct Latency {
  static constexpr const char* kName = "Latency";
  static constexpr const char* kWhat = "times the blocks that go by";
  static constexpr const char* kNeeds = "any heap below";
  template <class Out> static void describe(Out& out) { out.layer(kName, kWhat); }

  template <Heap Below> class Over : public Passthrough<Below> {
   public:
    using typename Passthrough<Below>::Thread;

    Block allocate(Thread& t, Request r) noexcept {
      const std::uint64_t begun = os::ticks();
      const Block b = this->below.allocate(t, r);
      allocations_.add(os::ticks() - begun);
      return b;
    }
    void release(Thread& t, Block b) noexcept {
      const std::uint64_t begun = os::ticks();
      this->below.release(t, b);
      releases_.add(os::ticks() - begun);
    }
    /// A hit counts; a miss is timed on the way that it takes then.
    MORTISE_HOT Block allocate_hit(Thread& t, Request r) noexcept requires Hits<Below> {
      const std::uint64_t begun = os::ticks();
      const Block b = this->below.allocate_hit(t, r);
      if (b) allocations_.add(os::ticks() - begun);
      return b;
    }
    MORTISE_HOT bool release_hit(Thread& t, Block b) noexcept requires Hits<Below> {
      const std::uint64_t begun = os::ticks();
      if (!this->below.release_hit(t, b)) return false;
      releases_.add(os::ticks() - begun);
      return true;
    }
    /// A batch counts as one call.
    unsigned allocate_batch(Thread& t, unsigned c, std::byte** out, unsigned n) noexcept requires Batches<Below> {
      const std::uint64_t begun = os::ticks();
      const unsigned got = this->below.allocate_batch(t, c, out, n);
      allocations_.add(os::ticks() - begun);
      return got;
    }
    void release_batch(Thread& t, unsigned c, std::byte** in, unsigned n) noexcept requires Batches<Below> {
      const std::uint64_t begun = os::ticks();
      this->below.release_batch(t, c, in, n);
      releases_.add(os::ticks() - begun);
    }

    const LatencyHistogram& allocations() const noexcept { return allocations_; }
    const LatencyHistogram& releases() const noexcept { return releases_; }

   private:
    LatencyHistogram allocations_, releases_;
  };
};

}  // namespace mortise
