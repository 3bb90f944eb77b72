// A heap profile by samples: one allocation in so many bytes is remembered with its call stack until it is freed.
//
//   malloc(n)  ── bytes left -= n ── below zero? ── the layer below                                3 instructions more
//                                        │ yes: draw the next distance; a block at the start of a page; its stack into the table
//   free(p)    ── start of a page? ── the layer below                                              2 instructions more
//                     │ yes, and not of 64 KiB, where slabs start: take it out of the table, if it is in it
//
// Distances are drawn from an exponential distribution, so that each byte is as likely to be sampled as any other (a Poisson
// process) whatever pattern the program allocates in; the reader scales counts up. Sampled blocks start on a page, which few others
// do: free need not look up the rest. With a mean below kExactBelow every free looks, and samples lie anywhere.
//
// Progress: hits as below; samples take a lock. Source: [Ghemawat05] tcmalloc's heap profile.
// Placement: on top. Below it anything that aligns to a page (Aligned).
#pragma once

#include <bit>

#include "mortise/core/core.hpp"
#include "mortise/os/entropy.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/os/unwind.hpp"
#include "mortise/sync/futex_lock.hpp"
#include "mortise/watch/heap_profile.hpp"

namespace mortise {

/// `kMeanBytes` (1..1 TiB): from one sample to the next, on average, until `set_mean` changes it.
template <std::size_t kMeanBytes = 512_KiB> struct Sampled {
  static constexpr const char* kName = "Sampled";
  static constexpr const char* kWhat = "remembers the call stack of one allocation in so many bytes, until it is freed";
  static constexpr const char* kNeeds = "any heap below that aligns to pages";
  template <class Out> static void describe(Out& out) { out.layer(kName, kWhat).number("mean_bytes", kMeanBytes); }

  template <Heap Below> class Over : public Passthrough<Below> {
   public:
    struct Thread {
      std::int64_t left = 0;     ///< bytes to the next sample; below zero: the next allocation is one
      std::uint64_t random = 0;
      bool is_inside = false;    ///< taking a sample, for which the unwinder might want memory
      [[no_unique_address]] typename Below::Thread below;
    };
    using Classes = typename Below::Classes;

    MORTISE_HOT Block allocate_hit(Thread& t, Request r) noexcept requires Hits<Below> {
      if ((t.left -= static_cast<std::int64_t>(r.size)) < 0) [[unlikely]] return {};
      return this->below.allocate_hit(t.below, r);
    }
    MORTISE_HOT bool release_hit(Thread& t, Block b) noexcept requires Hits<Below> {
      if (may_be_sample(b.ptr) && (address_of(b.ptr) & starts_)) [[unlikely]] return false;
      return this->below.release_hit(t.below, b);
    }

    Block allocate(Thread& t, Request r) noexcept {
      if constexpr (!Hits<Below>) t.left -= static_cast<std::int64_t>(r.size);
      if (t.is_inside || (t.left >= 0 && t.random)) [[likely]] return this->below.allocate(t.below, r);
      return sample(t, r);
    }
    void release(Thread& t, Block b) noexcept {
      if (may_be_sample(b.ptr)) {
        Held held(lock_);
        profile_.remove(b.ptr);
      }
      this->below.release(t.below, b);
    }
    unsigned allocate_batch(Thread&, unsigned, std::byte**, unsigned) = delete;  // would go past the count
    void release_batch(Thread&, unsigned, std::byte**, unsigned) = delete;

    /// What a block grows by counts as allocated here.
    Block resize_in_place(Thread& t, Block b, std::size_t n) noexcept requires Resizes<Below> {
      return resized(t, b, n, this->below.resize_in_place(t.below, b, n));
    }
    Block resize_by_moving(Thread& t, Block b, std::size_t n) noexcept requires Moves<Below> {
      return resized(t, b, n, this->below.resize_by_moving(t.below, b, n));
    }

    void attach(Thread& t) noexcept { attach_below(this->below, t.below); }
    void detach(Thread& t) noexcept { detach_below(this->below, t.below); }
    std::size_t trim(Thread& t) noexcept requires Trims<Below> { return this->below.trim(t.below); }
    void lock_all() noexcept {
      lock_.lock();
      lock_below(this->below);
    }
    void unlock_all() noexcept {
      unlock_below(this->below);
      lock_.unlock();
    }
    void reset_after_fork() noexcept {
      lock_.reset();
      reset_below(this->below);
    }

    /// From one sample to the next, on average. 1: every allocation. For threads from their next sample on.
    void set_mean(std::size_t bytes) noexcept {
      mean_ = bytes ? bytes : 1;
      filter_ = mean_ < kExactBelow ? 0 : kSampleAlign - 1;
      starts_ = mean_ < kExactBelow ? ~std::uintptr_t{0} : kSlabAlign - 1;
    }
    std::size_t mean() const noexcept { return mean_; }
    /// Calls see(stack) for each, under the lock.
    template <class See> void each_stack(See&& see) noexcept {
      Held held(lock_);
      profile_.each(see);
    }

   private:
    static constexpr std::size_t kSampleAlign = 4_KiB, kSlabAlign = 64_KiB, kExactBelow = 16_KiB;
    static constexpr unsigned kTries = 32;  // more than a magazine holds of starts of slabs

    MORTISE_HOT bool may_be_sample(const std::byte* p) const noexcept { return (address_of(p) & filter_) == 0; }

    MORTISE_COLD Block sample(Thread& t, Request r) noexcept {
      const bool is_first = !t.random;
      if (is_first) {
        t.random = os::entropy() | 1;
        if (t.left == 0) t.left -= static_cast<std::int64_t>(r.size);  // the call that made this record tried no hit
      }
      t.left += distance(t);
      if (is_first && t.left >= 0) return this->below.allocate(t.below, r);  // where a thread starts is no sample by itself
      if (t.left < 0) t.left = distance(t);  // a block larger than its distance is one sample
      if (filter_ && r.align <= filter_) r.align = filter_ + 1;
      if (const Block b = off_start(t, r)) {
        remember(t, b.ptr, r.size);
        return b;
      }
      return this->below.allocate(t.below, r);
    }
    /// A block, but none at the start of a slab, which hits of free do not look at. Caches hand out first what came last, so starts
    /// that were refused lie on top: they are kept aside until another block comes. Null when none did: this one is no sample then.
    Block off_start(Thread& t, Request r) noexcept {
      Block aside[kTries];
      unsigned kept = 0;
      Block b = this->below.allocate(t.below, r);
      while (b && b.size_class != kNoClass && !(address_of(b.ptr) & starts_)) {
        aside[kept++] = b;
        b = kept < kTries ? this->below.allocate(t.below, r) : Block{};
      }
      while (kept) this->below.release(t.below, aside[--kept]);
      return b;
    }
    MORTISE_COLD void remember(Thread& t, const std::byte* p, std::size_t bytes) noexcept {
      std::uintptr_t address[HeapProfile::kDepthMax];
      t.is_inside = true;
      const unsigned depth = os::capture_stack(address, HeapProfile::kDepthMax);
      t.is_inside = false;
      Held held(lock_);
      profile_.add(p, bytes, address, depth);
    }
    Block resized(Thread& t, Block before, std::size_t n, Block after) noexcept {
      if (!after) return after;
      {
        Held held(lock_);
        if (may_be_sample(before.ptr) && profile_.change(before.ptr, after.ptr, n)) return after;
      }
      if (after.size > before.size) t.left -= static_cast<std::int64_t>(after.size - before.size);
      if (t.left < 0 && may_be_sample(after.ptr)) {
        t.left = distance(t);
        remember(t, after.ptr, n);
      }
      return after;
    }

    /// Minus the logarithm of a random number of (0, 1], times the mean.
    std::int64_t distance(Thread& t) noexcept {
      if (mean_ == 1) return 0;
      t.random ^= t.random << 13;
      t.random ^= t.random >> 7;
      t.random ^= t.random << 17;
      const std::uint64_t bits = (t.random >> 11) + 1;  // 1..2^53
      const int top = 63 - std::countl_zero(bits);
      const double m = static_cast<double>(bits) / static_cast<double>(std::uint64_t{1} << top);  // [1, 2)
      // log2 of the mantissa, to four digits: a polynomial through both ends.
      const double x = m - 1;
      const double log2 = top + x * (1.4419 + x * (-0.7098 + x * (0.4123 + x * (-0.1932 + x * 0.0488))));
      return static_cast<std::int64_t>((53 - log2) * 0.6931471805599453 * static_cast<double>(mean_));
    }

    std::uintptr_t filter_ = kMeanBytes < kExactBelow ? 0 : kSampleAlign - 1;
    std::uintptr_t starts_ = kMeanBytes < kExactBelow ? ~std::uintptr_t{0} : kSlabAlign - 1;
    std::size_t mean_ = kMeanBytes;
    FutexLock lock_;
    HeapProfile profile_;
  };
};

}  // namespace mortise
