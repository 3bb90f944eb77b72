// A quarantine that costs little: released blocks wait in batches of their class, and batches leave whole.
//
//   release ──► the class's open batch ── full? ──► queue ( newest ... oldest ) ── old enough? ──► below, a batch at a time
//
//   Batch   ┌──────┬───────┬──────┬─────────────┬──────────┐
//           │ next │ class │ left │ block[left ..]         │ and beside each block the place of its release
//           └──────┴───────┴──────┴─────────────┴──────────┘
//
// A batch leaves kBytes of releases after the last of its blocks came, when another one is full. DelayedFree passes blocks on in the
// order of their release, for three times the instructions; it also serves heaps without size classes.
//
// A use after free meets memory that is nobody's; with a fill it is found as well. A block of which not one more than half of kBytes
// would fit does not stay.
//
// A signal handler may release between any two instructions: one that finds its thread at work here goes past the quarantine, as does
// a release that needs more batches while the layer's lock is held, for which it does not wait.
//
// `trim` also empties the quarantines of threads that sleep. A hit asks nobody: whoever trims claims a thread, points its open batches
// at one that is always full, and orders that before what the thread does next by membarrier. So a hit either was seen at work, and
// then its thread is left alone, or it misses, and a miss looks at the claim and goes past the quarantine.
// When the OnFault slot goes on, the block leaves as if nothing had been written to it.
//
// What waits: the last kBytes of releases, a block of less than kBytesMin counted as that, and up to kOpenBytes a class in its open
// batch, which stays open until it is full.
// Bound: O(1), and O(a batch) for the release that finds it full. Progress: as below.
// Source: delayed free as in [Mortise24]; batches as in the magazines of [BonwickAdams01].
// Placement: above caches that take batches (CoreCache); HeaderMagic and TailChecksum above it see the program's own releases.
#pragma once

#include <array>

#include "mortise/core/core.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/os/rseq.hpp"
#include "mortise/policy/coloured.hpp"
#include "mortise/policy/fill.hpp"
#include "mortise/policy/on_fault.hpp"
#include "mortise/sync/atomics.hpp"
#include "mortise/sync/futex_lock.hpp"
#include "mortise/sync/locked.hpp"

namespace mortise {

/// `kBytes` (8 KiB..64 MiB): later releases that a block waits for, a thread.
/// `Fill`: what is done to its bytes meanwhile.
/// `kOpenBytes` (64..64 KiB): the most that a class's open batch holds.
/// `OnFault`: what comes after a write after free.
template <std::size_t kBytes = 64_KiB, QuarantineFill Fill = fills::Untouched, std::size_t kOpenBytes = 8_KiB,
          OnFaultPolicy OnFault = on_fault::Configured>
struct DelayedBatches {
  static constexpr const char* kName = "DelayedBatches";
  static constexpr const char* kWhat = "a quarantine a thread: released blocks wait, and leave in batches of their class";
  static constexpr const char* kNeeds = "a heap below with size classes that finds blocks by pointer and takes batches (CoreCache)";
  template <class Out> static void describe(Out& out) {
    out.layer(kName, kWhat).policy("Fill", Fill::kName).policy("OnFault", OnFault::kName)
        .number("bytes", kBytes).number("open_bytes", kOpenBytes);
  }

  template <Locates Below> requires Classed<Below> && Batches<Below> && GivesMeta<Below> class Over : public Locked<Below, FutexLock> {
    static constexpr unsigned kSlots = 62;
    static constexpr std::size_t kBytesMin = 64;
#ifdef MORTISE_THREAD_SANITIZER
    static constexpr bool kMayClaim = false;  // it knows nothing of membarrier
#else
    static constexpr bool kMayClaim = true;
#endif
    struct Batch {
      Shared<Batch*> next;
      std::uint32_t size_class;  ///< 0: holds nothing
      std::uint32_t left;        ///< slots that are free, which are the first
      std::uint64_t cost;        ///< bytes that a release of this class counts
      Shared<std::uint64_t> closed_at;  ///< by the thread's clock
      std::byte* block[kSlots];
      const void* freed_at[kSlots];
    };
    /// Batches come in groups, which a thread keeps until it ends.
    struct Group {
      static constexpr unsigned kBatches = 8;
      Shared<Group*> next;
      Batch batch[kBatches];
    };
    enum State : std::uint8_t { kClosed, kOpen, kAtWork };

   public:
    static constexpr bool kTakesUnsized = true, kHitsAlone = std::is_empty_v<typename Below::Thread>;
    using Classes = typename Below::Classes;

    /// All zero: a thread that has not attached, whose releases go below at once. Written by its thread, or by who has claimed it; others
    /// glance at the batches, but never at the blocks in them, which may be gone.
    struct Thread {
      State state = kClosed;
      bool is_claimed = false;  ///< somebody empties it, under lock_
      Batch* open[Classes::kCount + 1] = {};
      Shared<Batch*> oldest;  ///< the queue
      Shared<Batch*> newest;
      std::uint64_t clock = 0;  ///< bytes released so far
      Shared<Batch*> idle;
      Shared<Group*> groups;    ///< under lock_
      Shared<Thread*> next;     ///< in the list of attached threads; under lock_
      Shared<Thread*> prev;
      [[no_unique_address]] typename Below::Thread below{};
      static constexpr bool kRefusesAsZero = true;  ///< no hit writes to one that has not attached
    };

    MORTISE_HOT Block allocate(Thread& t, Request r) noexcept { return this->below.allocate(t.below, r); }
    MORTISE_HOT Block allocate_hit(Thread& t, Request r) noexcept requires Hits<Below> { return this->below.allocate_hit(t.below, r); }

    /// Yes when the open batch of the block's class has a slot: 16 instructions without a fill.
    MORTISE_HOT bool release_hit(Thread& t, Block b) noexcept {
      if (t.state != kOpen) [[unlikely]] return false;
      set_state(t, kAtWork);
      Batch& batch = *glance(t.open[b.class_index()]);
      const std::uint32_t left = batch.left;
      if (left == 0) [[unlikely]] {
        set_state(t, kOpen);
        return false;
      }
      if constexpr (kHitsAreShort) Fill::fill_short(b.ptr, kLengths, b.class_index());
      else if constexpr (Fill::kFillBytes) Fill::fill(b.ptr, kLengths, b.class_index());
      put(t, batch, left - 1, b.ptr, call_site());
      set_state(t, kOpen);
      return true;
    }
    void release(Thread& t, Block b) noexcept { release_from(t, b, call_site()); }

    unsigned allocate_batch(Thread& t, unsigned c, std::byte** out, unsigned n) noexcept {
      return this->below.allocate_batch(t.below, c, out, n);
    }
    void release_batch(Thread& t, unsigned c, std::byte** in, unsigned n) noexcept {
      for (unsigned i = 0; i < n; ++i) release_from(t, {in[i], Classes::size_of(c), c}, nullptr);
    }
    Block resize_in_place(Thread& t, Block b, std::size_t n) noexcept requires Resizes<Below> {
      return this->below.resize_in_place(t.below, b, n);
    }
    Block resize_by_moving(Thread& t, Block b, std::size_t n) noexcept requires Moves<Below> {
      return this->below.resize_by_moving(t.below, b, n);
    }

    /// Where the block at `p` was released, when it waits in some quarantine; null otherwise, and when somebody is just being attached,
    /// detached or counted: a report waits for no lock. O(blocks).
    const void* freed_at(const std::byte* p) noexcept {
      if (!this->lock_.try_lock()) return nullptr;
      const void* place = nullptr;
      for (const Thread* t = first_; t && !place; t = t->next)
        each_batch(*t, [&](const Batch& batch, unsigned c, unsigned left) {
          for (unsigned i = left; i < slots_of(c); ++i)
            if (glance(batch.block[i]) == p) place = glance(batch.freed_at[i]);
        });
      this->lock_.unlock();
      return place;
    }

    bool start(const os::Facts& facts) noexcept {
      if (!start_below(this->below, facts)) return false;
      can_claim_ = kMayClaim && os::register_order();
      return true;
    }

    /// Puts back what quarantines hold: this thread's, and where threads can be ordered from outside those of all that do not release at
    /// this moment. O(threads + blocks).
    std::size_t trim(Thread& t) noexcept {
      const bool is_open = t.state == kOpen;
      if (is_open) {
        set_state(t, kAtWork);  // while it lasts a signal handler does not come to the lock
        if (!is_claimed(t)) empty(t, t);
      }
      if (can_claim_) empty_others(t);
      if (is_open) set_state(t, kOpen);
      return trim_below(this->below, t.below);
    }
    void attach(Thread& t) noexcept {
      attach_below(this->below, t.below);
      for (Batch*& batch : t.open) show(batch, &none_);
      {
        Held held(this->lock_);
        t.next = first_.get();
        if (first_) first_->prev = &t;
        first_ = &t;
      }
      set_state(t, kOpen);
    }
    /// The batches stay for another thread.
    void detach(Thread& t) noexcept {
      if (t.state != kClosed) {
        set_state(t, kClosed);  // first: what a signal handler releases from here on goes below
        Held held(this->lock_);  // and nobody claims it
        empty(t, t);
        (t.prev ? t.prev->next : first_) = t.next.get();
        if (t.next) t.next->prev = t.prev.get();
        t.next = nullptr;
        t.prev = nullptr;
        t.idle = nullptr;
        while (Group* const group = t.groups) {
          t.groups = group->next.get();
          group->next = spare_.get();
          spare_ = group;
        }
      }
      detach_below(this->below, t.below);
    }
    void tell(Usage& u) noexcept {
      tell_below(this->below, u);
      Held held(this->lock_);
      for (const Thread* t = first_; t; t = t->next)
        each_batch(*t, [&u](const Batch&, unsigned c, unsigned left) {
          u.in_transit(plain_class<Classes>(c), Classes::size_of(c), slots_of(c) - left);
        });
    }
    std::size_t check_all(Thread& t) noexcept requires ChecksAll<Below> { return this->below.check_all(t.below); }

    /// Looks at the blocks that wait here, which stay. O(blocks).
    void check_waiting(Thread& t) noexcept requires(Fill::kFillBytes > 0) {
      each_batch(t, check_all_of);
    }

   private:
    struct Facts {
      std::uint8_t slots;  ///< of a batch; 0: blocks of the class do not stay
      std::uint32_t cost;  ///< a small block counts as kBytesMin, so that the number of blocks that wait is bounded, too
    };
    static constexpr auto kFacts = [] {
      std::array<Facts, Classes::kCount + 1> facts{};
      for (unsigned c = 1; c <= Classes::kCount; ++c) {
        const std::size_t bytes = Classes::size_of(c), fit = kOpenBytes / bytes, slots = fit < 1 ? 1 : fit > kSlots ? kSlots : fit;
        facts[c].slots = bytes <= kBytes / 2 ? static_cast<std::uint8_t>(slots) : 0;
        facts[c].cost = static_cast<std::uint32_t>(bytes > kBytesMin ? bytes : kBytesMin);
      }
      return facts;
    }();
    static constexpr unsigned slots_of(unsigned c) noexcept { return kFacts[c].slots; }
    static constexpr auto kFilledOf = [] {
      std::array<std::uint32_t, Classes::kCount + 1> filled{};
      for (unsigned c = 1; c <= Classes::kCount; ++c) {
        const std::size_t bytes = Classes::size_of(c);
        filled[c] = static_cast<std::uint32_t>((bytes < Fill::kFillBytes ? bytes : Fill::kFillBytes) & ~std::size_t{15});
      }
      return filled;
    }();
    static constexpr auto kLengths = [] {
      if constexpr (Fill::kFillBytes > 0) return typename Fill::template Lengths<Classes::kCount + 1>(kFilledOf);
      else return nullptr;
    }();
    /// A batch of one is full as soon as it is open, so no hit meets one: what those that take more hold may all be short.
    static constexpr bool kHitsAreShort = [] {
      if constexpr (Fill::kFillBytes > 0)
        for (unsigned c = 1; c <= Classes::kCount; ++c)
          if (slots_of(c) > 1 && kFilledOf[c] >= Fill::kLongFrom) return false;
      return Fill::kFillBytes > 0;
    }();

    /// Seen by signal handlers of this thread: nothing moves across it.
    MORTISE_HOT static void set_state(Thread& t, State state) noexcept {
      __atomic_signal_fence(__ATOMIC_SEQ_CST);
      show(t.state, state);
      __atomic_signal_fence(__ATOMIC_SEQ_CST);
    }
    MORTISE_HOT static void put(Thread& t, Batch& batch, std::uint32_t at, std::byte* p, const void* site) noexcept {
      t.clock += batch.cost;
      show(batch.block[at], p);
      show(batch.freed_at[at], site);
      show(batch.left, at);
    }
    template <class Each> static void each_batch(const Thread& t, Each&& each) noexcept {
      for (const Group* group = t.groups; group; group = group->next)
        for (const Batch& batch : group->batch) {
          const std::uint32_t c = glance(batch.size_class), left = glance(batch.left);
          if (c && left < slots_of(c)) each(batch, c, left);
        }
    }

    /// The open batch is full, or there is none, or the block does not stay.
    [[gnu::noinline]] void release_from(Thread& t, Block b, const void* site) noexcept {
      const unsigned c = b.class_index();
      if (slots_of(c) == 0 || t.state != kOpen) return pass_by(t, b);
      set_state(t, kAtWork);
      Batch* batch = is_claimed(t) ? nullptr : glance(t.open[c]);
      if (batch && glance(batch->left) == 0) batch = close(t, c);
      if (batch) {
        if constexpr (Fill::kFillBytes) Fill::fill(b.ptr, kLengths, c);
        put(t, *batch, batch->left - 1, b.ptr, site);
      }
      set_state(t, kOpen);
      if (!batch) pass_by(t, b);
    }
    void pass_by(Thread& t, Block b) noexcept {
      if (b.size_class != kNoClass) b.size = Classes::size_of(b.class_index());
      else if (b.is_unsized() && !kTakesUnsizedBlocks<Below>) b = this->below.measure(b);
      this->below.release(t.below, b);
    }

    /// Queues the open batch of a class, lets the oldest go that are too many, and opens another; null without memory.
    Batch* close(Thread& t, unsigned c) noexcept {
      if (Batch* const full = glance(t.open[c]); full != &none_) {
        queue_open(t, c, *full, t.clock);
        while (t.clock - t.oldest->closed_at >= kBytes) leave(t, t);
      }
      if (!t.idle || !t.idle->next) more(t);  // before the last one is needed: who is refused asks again
      Batch* const batch = t.idle;
      if (!batch) return nullptr;
      t.idle = batch->next.get();
      batch->cost = kFacts[c].cost;
      show(batch->left, std::uint32_t{slots_of(c)});
      show(batch->size_class, std::uint32_t{c});
      show(t.open[c], batch);
      return batch;
    }
    void queue_open(Thread& t, unsigned c, Batch& batch, std::uint64_t closed_at) noexcept {
      batch.next = nullptr;
      (t.newest ? t.newest->next : t.oldest) = &batch;
      t.newest = &batch;
      batch.closed_at = closed_at;
      show(t.open[c], &none_);
    }

    /// The oldest batch of `t` goes below, on the account of `by`.
    void leave(Thread& by, Thread& t) noexcept {
      Batch& batch = *t.oldest;
      t.oldest = batch.next.get();
      if (!t.oldest) t.newest = nullptr;
      const unsigned c = glance(batch.size_class), left = glance(batch.left), count = slots_of(c) - left;
      if constexpr (Fill::kFillBytes)
        if (!Fill::are_whole(batch.block + left, count, kFilledOf[c])) [[unlikely]] check_all_of(batch, c, left);
      show(batch.size_class, std::uint32_t{0});
      this->below.release_batch(by.below, c, batch.block + left, count);
      put_idle(t, batch);
    }
    static void put_idle(Thread& t, Batch& batch) noexcept {
      batch.next = t.idle.get();
      t.idle = &batch;
    }
    void queue_all(Thread& t) noexcept {
      for (unsigned c = 1; c <= Classes::kCount; ++c)
        if (Batch* const batch = glance(t.open[c]); batch != &none_) queue_open(t, c, *batch, t.newest ? t.newest->closed_at.get() : 0);
    }
    void empty(Thread& by, Thread& t) noexcept {
      queue_all(t);
      while (t.oldest) leave(by, t);
    }

    MORTISE_HOT static bool is_claimed(const Thread& t) noexcept {
      __atomic_signal_fence(__ATOMIC_SEQ_CST);
      return glance(t.is_claimed);
    }
    /// Those that are at work are left alone; their open batches may leave earlier than they would have.
    void empty_others(Thread& by) noexcept {
      Held held(this->lock_);
      if (!first_ || (first_ == &by && !by.next)) return;
      const auto each_claimed = [&](auto&& see) {
        for (Thread* t = first_; t; t = t->next)
          if (t->is_claimed) see(*t);
      };
      const auto give_up_at_work = [&] {
        each_claimed([](Thread& t) {
          if (glance(t.state) != kOpen) show(t.is_claimed, false);
        });
      };
      for (Thread* t = first_; t; t = t->next) show(t->is_claimed, t != &by);
      // Each barrier orders what is above it, here and there, before what is below. Twice: claims before looking, and what was done
      // by threads that were seen to have ended their work before taking it over.
      bool is_ordered = os::order_all_threads();
      give_up_at_work();
      if ((is_ordered = is_ordered && os::order_all_threads())) each_claimed([&](Thread& t) { queue_all(t); });
      is_ordered = is_ordered && os::order_all_threads();
      give_up_at_work();  // a hit that began before its batch was queued may still be writing to it
      if (is_ordered && os::order_all_threads()) each_claimed([&](Thread& t) {
        while (t.oldest) leave(by, t);
      });
      os::order_all_threads();
      each_claimed([](Thread& t) { show(t.is_claimed, false); });
    }
    /// More idle batches; none while the lock is held: perhaps by the very call that the signal handler has interrupted.
    void more(Thread& t) noexcept {
      if (!this->lock_.try_lock()) return;
      Group* group = spare_;
      if (group) spare_ = group->next.get();
      else group = reinterpret_cast<Group*>(this->below.meta(sizeof(Group)));
      if (group) {
        for (Batch& batch : group->batch) put_idle(t, batch);
        group->next = t.groups.get();
        t.groups = group;
      }
      this->lock_.unlock();
    }

    static void check_all_of(const Batch& batch, unsigned c, unsigned left) noexcept {
      for (unsigned i = left; i < slots_of(c); ++i)
        if (!Fill::is_whole(batch.block[i], kFilledOf[c])) accuse({batch.block[i], Classes::size_of(c), c}, batch.freed_at[i]);
    }
    MORTISE_COLD static void accuse(Block b, const void* freed_at) noexcept {
      OnFault::answer({.fault = Fault::write_after_free, .block = b, .freed_at = freed_at});
    }

    bool can_claim_ = false;
    Batch none_ = {};  ///< what is open for a class without a batch: no slot of it is free; never written
    Shared<Thread*> first_;
    Shared<Group*> spare_;
  };
};

}  // namespace mortise
