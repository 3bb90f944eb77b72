// A heap profile by samples: one allocation in so many bytes is remembered with its call stack until it is freed.
//
//   malloc(n)  ── bytes left -= n ── below zero? ── the layer below                     2 instructions more over a metered CoreCache,
//                                        │                                              which counts by core; else 3, counting by thread
//                                        │ yes: draw the next distance; room in a chunk of samples; its stack into the table
//   free(p)    ── the layer below                                                       none more
//                     │ a miss, for a chunk has no size class: take it out of the table
//
// Distances are drawn from an exponential distribution, so that each byte is as likely to be sampled as any other (a Poisson
// process) whatever pattern the program allocates in; the reader scales counts up. Sampled blocks lie apart from all others, in
// large blocks of the heap below (sample_chunks.hpp), so that no free need ask whether its block is one. With a mean below
// kExactBelow samples lie anywhere: then the magazines below are closed, and every free is a miss that looks.
//
// Progress: hits as below; samples take a lock. No allocation of a signal's handler is a sample while its own thread is in a miss, so that
// its hits need wait for nothing that this thread holds; only measuring a large block and counting do not say so.
// Source: [Ghemawat05] tcmalloc's heap profile.
// Placement: on top. Below it a stack with size classes, which larger blocks lack.
#pragma once

#include <bit>
#include <cstring>

#include "mortise/core/core.hpp"
#include "mortise/data/preset.hpp"
#include "mortise/os/entropy.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/os/unwind.hpp"
#include "mortise/policy/coloured.hpp"
#include "mortise/sync/futex_lock.hpp"
#include "mortise/sync/locked.hpp"
#include "mortise/watch/heap_profile.hpp"
#include "mortise/watch/sample_chunks.hpp"

namespace mortise {

/// `kMeanBytes` (1..1 TiB): from one sample to the next, on average, until `set_mean` changes it.
template <std::size_t kMeanBytes = 512_KiB> struct Sampled {
  static constexpr const char* kName = "Sampled";
  static constexpr const char* kWhat = "remembers the call stack of one allocation in so many bytes, until it is freed";
  static constexpr const char* kNeeds = "size classes and PageIndex below (as in hslab)";
  template <class Out> static void describe(Out& out) { out.layer(kName, kWhat).number("mean_bytes", kMeanBytes); }

  template <Heap Below> requires Classed<Below> && Locates<Below> && GivesMeta<Below> && (!facts_of<Below>().has_headers)
  class Over : public Locked<Below, FutexLock> {
   public:
    static constexpr bool kTakesUnsized = true;
    static constexpr BlockFacts kFacts = facts_of<Below>().watched().with(Spans::none);
    struct Thread {
      std::int64_t left = 0;     ///< bytes to the next sample, of those that no meter counts; below zero: the next allocation is one
      std::uint64_t random = 0;
      bool has_distance = false; ///< `left` was drawn
      bool is_inside = false;    ///< in a miss: holds locks that a sample would want, or asks the unwinder, which might want memory
      [[no_unique_address]] typename Below::Thread below;
      static constexpr bool kNeedsNoMaking = std::is_empty_v<typename Below::Thread>;
    };
    using Classes = typename Below::Classes;

    MORTISE_HOT Block allocate_hit(Thread& t, Request r) noexcept requires Hits<Below> {
      if constexpr (!Meters<Below>)
        if ((t.left -= static_cast<std::int64_t>(r.size)) < 0) [[unlikely]] return {};
      return this->below.allocate_hit(t.below, r);
    }
    MORTISE_HOT bool release_hit(Thread& t, Block b) noexcept requires Hits<Below> { return this->below.release_hit(t.below, b); }

    Block allocate(Thread& t, Request r) noexcept {
      if (t.is_inside) return this->below.allocate(t.below, r);
      const bool is_sample = is_due(t, r.size);
      Inside inside(t);
      return is_sample ? sample(t, r) : this->below.allocate(t.below, r);
    }
    void release(Thread& t, Block b) noexcept {
      Inside inside(t);
      if (b.size_class == kNoClass || is_exact_) {
        Held held(this->lock_);
        if (const HeapProfile::Live l = profile_.remove(b.ptr); l.place) return give_back(t, l);
      }
      if constexpr (!kTakesUnsizedBlocks<Below>)
        if (b.is_unsized() && b.size_class == kNoClass) b = this->below.measure(b);
      this->below.release(t.below, b);
    }
    unsigned allocate_batch(Thread&, unsigned, std::byte**, unsigned) = delete;  // would go past the count
    void release_batch(Thread&, unsigned, std::byte**, unsigned) = delete;

    MORTISE_HOT Block measure(Block b) noexcept {
      if (b.size_class != kNoClass) [[likely]] return this->below.measure(b);
      return measure_unclassed(b);
    }

    /// What a block grows by counts as allocated here.
    Block resize_in_place(Thread& t, Block b, std::size_t n) noexcept requires Resizes<Below> {
      Inside inside(t);
      if (is_in_chunk(b)) return resized_in_chunk(b, n);
      return resized(t, b, n, this->below.resize_in_place(t.below, b, n));
    }
    Block resize_by_moving(Thread& t, Block b, std::size_t n) noexcept requires Moves<Below> {
      Inside inside(t);
      if (is_in_chunk(b)) return {};
      Block after;
      {
        Held held(this->lock_);  // until its sample has gone along nobody else's may lie where it lay
        after = this->below.resize_by_moving(t.below, b, n);
        if (after && profile_.change(b.ptr, after.ptr, n)) return after;
      }
      return grown(t, b, n, after);
    }

    bool start(const os::Facts& facts) noexcept {
      if (!start_below(this->below, facts)) return false;
      chunks_.set_page_bytes(facts.page_bytes);
      if (is_exact_) close_below();
      return true;
    }
    void attach(Thread& t) noexcept { attach_below(this->below, t.below); }
    void detach(Thread& t) noexcept { detach_below(this->below, t.below); }
    std::size_t trim(Thread& t) noexcept requires Trims<Below> {
      Inside inside(t);
      const std::size_t given = this->below.trim(t.below);  // first: a heap at rest asks for no huge pages, which would bring pages back
      Held held(this->lock_);
      return given + chunks_.purge(this->below);
    }
    /// Chunks are no blocks of the program's; what lies in them is, of the class that it would have been in.
    void tell(Usage& u) noexcept {
      tell_below(this->below, u);
      Held held(this->lock_);
      u.carved(chunks_.bytes(), chunks_.count());
      for (unsigned c = 1; c <= Classes::kCount; ++c)
        if (held_[c]) u.in_carved(plain_class<Classes>(c), Classes::size_of(c), held_[c]);
    }

    /// From one sample to the next, on average. 1: every allocation. To be called before there is a second thread; with a mean that was
    /// below kExactBelow once, every free goes on looking.
    void set_mean(std::size_t bytes) noexcept {
      mean_ = bytes ? bytes : 1;
      if (mean_ >= kExactBelow) return;
      is_exact_ = true;
      close_below();
    }
    std::size_t mean() const noexcept { return mean_; }
    /// Calls see(stack) for each, under the lock.
    template <class See> void each_stack(See&& see) noexcept {
      Held held(this->lock_);
      profile_.each(see);
    }
    /// After each dlclose: other code may come to lie there.
    void code_unloaded() noexcept { stacks_.forget(); }
    /// Samples that could not be recorded.
    std::uint64_t dropped() noexcept {
      Held held(this->lock_);
      return profile_.dropped();
    }

   private:
    using Chunks = SampleChunks<Below>;
    static constexpr std::size_t kExactBelow = 16_KiB;

    /// Tells this thread's signal handlers that none of their allocations is to be a sample.
    class Inside {
     public:
      explicit Inside(Thread& t) noexcept : thread_(t), was_(t.is_inside) {
        t.is_inside = true;
        compiler_fence();
      }
      ~Inside() {
        compiler_fence();
        thread_.is_inside = was_;
      }
      Inside(const Inside&) = delete;
      Inside& operator=(const Inside&) = delete;

     private:
      Thread& thread_;
      const bool was_;
    };

    void close_below() noexcept {
      if constexpr (Closes<Below>) this->below.close();
    }
    [[gnu::noinline]] Block measure_unclassed(Block b) noexcept {
      {
        Held held(this->lock_);
        if (const auto* l = profile_.look_up(b.ptr); l && l->place) return {b.ptr, l->place_bytes};
      }
      return this->below.measure(b);
    }
    /// After a miss: whether this allocation is a sample; the next distance is drawn then. Where a count begins is no sample by itself, and
    /// a block larger than its distance is one.
    bool is_due(Thread& t, std::size_t bytes) noexcept {
      std::int64_t left;
      if constexpr (Meters<Below>)
        if (this->below.read_meter(bytes, left)) {
          if (left >= 0) [[likely]] return false;
          this->below.set_meter(bytes, distance(t));
          return left > kMeterUnset / 2;
        }
      if (!t.has_distance) {
        t.has_distance = true;
        t.left = distance(t) - static_cast<std::int64_t>(bytes);
      } else if (!Hits<Below> || Meters<Below>) {
        t.left -= static_cast<std::int64_t>(bytes);
      }
      if (t.left >= 0) [[likely]] return false;
      t.left = distance(t);
      return true;
    }
    MORTISE_COLD Block sample(Thread& t, Request r) noexcept {
      std::uintptr_t address[HeapProfile::kDepthMax];
      const unsigned depth = capture(address);
      if (!is_exact_ && r.size <= Classes::kMaxBytes) {
        if (r.align <= Chunks::kAlignMax) return in_chunk(t, r, address, depth);
        r.size = Classes::kMaxBytes + 1;  // where no block has a class
      }
      const Block b = this->below.allocate(t.below, r);
      if (!b) return b;
      Held held(this->lock_);
      profile_.add({.block = b.ptr, .bytes = r.size}, address, depth);
      return b;
    }
    Block in_chunk(Thread& t, Request r, const std::uintptr_t* address, unsigned depth) noexcept {
      const unsigned c = Classes::class_of(r.size);
      const std::size_t bytes = Classes::size_of(c);
      {
        Held held(this->lock_);
        const auto place = chunks_.take(this->below, t.below, bytes, r.align);
        const auto place_bytes = static_cast<std::uint32_t>(bytes);
        if (place.ptr && profile_.add({place.ptr, r.size, place.chunk, place_bytes}, address, depth)) {
          ++held_[c];
          if (r.zeroed) std::memset(place.ptr, 0, r.size);
          return {place.ptr, bytes};
        }
        if (place.ptr) chunks_.give(this->below, t.below, place.chunk, place.ptr, bytes);
      }
      return this->below.allocate(t.below, r);
    }
    MORTISE_COLD void give_back(Thread& t, const HeapProfile::Live& l) noexcept {
      --held_[Classes::class_of(l.place_bytes)];
      chunks_.give(this->below, t.below, static_cast<typename Chunks::Chunk*>(l.place), l.block, l.place_bytes);
    }
    unsigned capture(std::uintptr_t* address) noexcept { return stacks_.capture(address, HeapProfile::kDepthMax); }

    bool is_in_chunk(Block b) noexcept {
      if (b.size_class != kNoClass || b.size > Classes::kMaxBytes) return false;
      Held held(this->lock_);
      const auto* l = profile_.look_up(b.ptr);
      return l && l->place;
    }
    Block resized_in_chunk(Block b, std::size_t n) noexcept {
      if (n > b.size || n < b.size / 2) return {};
      Held held(this->lock_);
      profile_.change(b.ptr, b.ptr, n);
      return b;
    }
    Block resized(Thread& t, Block before, std::size_t n, Block after) noexcept {
      if (!after) return after;
      const bool looks = after.size_class == kNoClass || is_exact_;
      if (looks) {
        Held held(this->lock_);
        if (profile_.change(before.ptr, after.ptr, n)) return after;
      }
      return grown(t, before, n, after);
    }
    /// Of a block that is no sample yet.
    Block grown(Thread& t, Block before, std::size_t n, Block after) noexcept {
      if (!after) return after;
      const bool looks = after.size_class == kNoClass || is_exact_;
      if (after.size > before.size) t.left -= static_cast<std::int64_t>(after.size - before.size);
      if (t.left < 0 && looks) {
        t.left = distance(t);
        std::uintptr_t address[HeapProfile::kDepthMax];
        const unsigned depth = capture(address);
        Held held(this->lock_);
        profile_.add({.block = after.ptr, .bytes = n}, address, depth);
      }
      return after;
    }

    /// Minus the logarithm of a random number of (0, 1], times the mean.
    std::int64_t distance(Thread& t) noexcept {
      if (mean_ == 1) return 0;
      if (!t.random) t.random = os::entropy() | 1;
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

    Preset<std::size_t{kMeanBytes}> mean_;
    Preset<(kMeanBytes < kExactBelow)> is_exact_;
    HeapProfile profile_;
    Chunks chunks_;
    std::uint32_t held_[Classes::kCount + 1] = {};  ///< blocks in chunks, by class
    os::StackWalker<> stacks_;
  };
};

}  // namespace mortise
