// A cache of free blocks for each thread: the hit path needs no atomic instruction and nothing of the kernel's.
//
//   malloc(n)  ── class by one load ── pop from this thread's magazine ── done
//                                          │ empty: refill() ── half a magazine from below
//   free(p)    ── class of p ── push to this thread's magazine ── done
//                                          │ full: spill() ── half of it below
//
//   Magazine  ┌───────┬───────┬─────────┬─────────┬─────┐   lies in the thread's record; its limit starts small and doubles when
//             │ count │ limit │ slot[0] │ slot[1] │ ... │   it misses, so a thread that uses a class little keeps little
//             └───────┴───────┴─────────┴─────────┴─────┘
//
// Memory is bounded by threads, not by cores; a thread that ends gives its blocks back (detach). What another thread of the parent
// held stays counted as cached in the child of a fork: it is not lost, but nobody will use it.
//
// Progress: hit wait-free; misses as below. Source: [BonwickAdams01] magazines, one layer.
// Placement: on top, or under guards. Needs classes and batches below.
#pragma once

#include <cstring>

#include "mortise/core/core.hpp"
#include "mortise/data/thread_list.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/sync/atomics.hpp"
#include "mortise/sync/futex_lock.hpp"
#include "mortise/sync/locked.hpp"

namespace mortise {

/// `kBytesPerClass` (0..1 MiB): the most bytes a thread keeps of one class; never fewer than 2 blocks.
/// `kSlots` (4..1024): the most blocks a thread keeps of one class.
template <std::size_t kBytesPerClass = 32_KiB, unsigned kSlots = 30> struct ThreadCache {
  static_assert(kSlots >= 4, "half a magazine is a batch");
  static constexpr const char* kName = "ThreadCache";
  static constexpr const char* kWhat = "a magazine of free blocks for each thread and class";
  static constexpr const char* kNeeds = "size classes and batches below (BatchedFree or Slab)";
  template <class Out> static void describe(Out& out) {
    out.layer(kName, kWhat).number("bytes_per_class", kBytesPerClass).number("slots", kSlots);
  }

  template <Heap Below> requires Classed<Below> && Batches<Below> && (!kSizesExactly<Below>) class Over : public Locked<Below, FutexLock> {
   public:
    using Classes = typename Below::Classes;
    static constexpr Progress kProgress = {Guarantee::wait_free, Below::kProgress.refill, Below::kProgress.grow};

    /// Changed by its thread alone; `count` is read by whoever asks what the heap holds, hence its relaxed accesses.
    struct Magazine {
      std::uint32_t count;
      std::uint32_t limit;  ///< how many it may hold; 0 = not used yet, or its thread has ended
      std::byte* slot[kSlots];
    };
    /// All zero: a thread that has not attached. Every call is a miss then, and is served.
    struct Thread {
      Shared<Thread*> next;  ///< in the list of attached threads; under the lock
      Shared<Thread*> prev;
      bool is_attached = false;
      Magazine magazine[Classes::kCount + 1] = {};
      [[no_unique_address]] typename Below::Thread below{};
    };

    MORTISE_HOT Block allocate_hit(Thread& t, Request r) noexcept {
      if (r.size > Classes::kMaxBytes || r.align > kMinAlign) [[unlikely]] return {};
      const unsigned c = Classes::class_of(r.size);
      Magazine& m = t.magazine[c];
      if (m.count == 0) [[unlikely]] return {};
      std::byte* const p = m.slot[m.count - 1];
      set_count(m, m.count - 1);
      if (r.zeroed) std::memset(p, 0, r.size);
      return {p, Classes::size_of(c), c};
    }
    MORTISE_HOT bool release_hit(Thread& t, Block b) noexcept {
      Magazine& m = t.magazine[b.class_index()];  // class 0 has no limit: never a hit
      if (m.count >= m.limit) [[unlikely]] return false;
      m.slot[m.count] = b.ptr;
      set_count(m, m.count + 1);
      return true;
    }

    Block allocate(Thread& t, Request r) noexcept {
      if (r.size > Classes::kMaxBytes || r.align > kMinAlign || grows_past<Below>(r)) [[unlikely]] return this->below.allocate(t.below, r);
      const Block hit = allocate_hit(t, r);
      return hit ? hit : refill(t, r);
    }
    void release(Thread& t, Block b) noexcept {
      if (b.size_class == kNoClass) [[unlikely]] return this->below.release(t.below, b);
      if (!release_hit(t, b)) spill(t, b);
    }

    unsigned allocate_batch(Thread& t, unsigned c, std::byte** out, unsigned n) noexcept {
      return this->below.allocate_batch(t.below, c, out, n);
    }
    void release_batch(Thread& t, unsigned c, std::byte** in, unsigned n) noexcept {
      this->below.release_batch(t.below, c, in, n);
    }
    Block resize_in_place(Thread& t, Block b, std::size_t n) noexcept requires Resizes<Below> {
      return this->below.resize_in_place(t.below, b, n);
    }
    Block resize_by_moving(Thread& t, Block b, std::size_t n) noexcept requires Moves<Below> {
      return this->below.resize_by_moving(t.below, b, n);
    }

    void attach(Thread& t) noexcept {
      attach_below(this->below, t.below);
      Held held(this->lock_);
      threads_.push(&t);
      t.is_attached = true;
    }
    /// The thread's blocks go below; its record may be used for another thread.
    void detach(Thread& t) noexcept {
      drain(t, 0);
      if (t.is_attached) {
        Held held(this->lock_);
        threads_.remove(&t);
        t.is_attached = false;
      }
      detach_below(this->below, t.below);
    }

    /// Empties this thread's magazines, then trims below: those of others are theirs.
    std::size_t trim(Thread& t) noexcept {
      drain(t, kFirstLimit);
      return trim_below(this->below, t.below);
    }

    /// Counts are read while other threads change them: exact when they rest.
    void tell(Usage& u) noexcept {
      tell_below(this->below, u);
      Held held(this->lock_);
      unsigned number = 0;
      for (const Thread* t = threads_.first(); t; t = t->next, ++number) {
        for (unsigned c = 1; c <= Classes::kCount; ++c)
          u.in_cache(number, c, Classes::size_of(c), __atomic_load_n(&t->magazine[c].count, __ATOMIC_RELAXED));
      }
    }

   private:
    static constexpr std::uint32_t kFirstLimit = 4;
    static void set_count(Magazine& m, std::uint32_t count) noexcept { __atomic_store_n(&m.count, count, __ATOMIC_RELAXED); }
    static constexpr std::uint32_t limit_max(unsigned c) noexcept {
      const std::size_t fit = kBytesPerClass / Classes::size_of(c);
      return static_cast<std::uint32_t>(fit < 2 ? 2 : fit > kSlots ? kSlots : fit);
    }
    static std::uint32_t widen(Magazine& m, unsigned c) noexcept {
      const std::uint32_t wish = m.limit ? m.limit * 2 : kFirstLimit;
      return m.limit = wish < limit_max(c) ? wish : limit_max(c);
    }

    MORTISE_COLD Block refill(Thread& t, Request r) noexcept {
      const unsigned c = Classes::class_of(r.size);
      Magazine& m = t.magazine[c];
      std::byte* batch[kSlots];
      const unsigned got = this->below.allocate_batch(t.below, c, batch, widen(m, c) / 2 + 1);
      if (!got) return {};
      // The lowest address goes to the program; the next lowest is popped next, so the batch goes in backwards.
      for (unsigned i = 1; i < got; ++i) m.slot[i - 1] = batch[got - i];
      set_count(m, got - 1);
      if (r.zeroed) std::memset(batch[0], 0, r.size);
      return {batch[0], Classes::size_of(c), c};
    }
    MORTISE_COLD void spill(Thread& t, Block b) noexcept {
      const unsigned c = b.class_index();
      Magazine& m = t.magazine[c];
      const std::uint32_t limit = t.is_attached ? widen(m, c) : 0;  // a thread that has ended keeps nothing
      if (m.count < limit) {
        m.slot[m.count] = b.ptr;
        return set_count(m, m.count + 1);
      }
      give_below(t, c, m.count / 2);
      this->below.release_batch(t.below, c, &b.ptr, 1);
    }
    void give_below(Thread& t, unsigned c, std::uint32_t n) noexcept {
      if (!n) return;
      Magazine& m = t.magazine[c];
      std::byte* batch[kSlots];
      std::memcpy(batch, m.slot + m.count - n, n * sizeof *batch);
      set_count(m, m.count - n);  // before they go: a signal handler may use this magazine meanwhile
      this->below.release_batch(t.below, c, batch, n);
    }
    void drain(Thread& t, std::uint32_t limit) noexcept {
      for (unsigned c = 1; c <= Classes::kCount; ++c) {
        Magazine& m = t.magazine[c];
        if (m.limit > limit) m.limit = limit;
        give_below(t, c, m.count);
      }
    }

    ThreadList<Thread> threads_;
  };
};

}  // namespace mortise
