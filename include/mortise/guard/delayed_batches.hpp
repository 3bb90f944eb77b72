// A quarantine that costs little: released blocks wait in batches, in the order of their release, and batches leave whole.
//
//   release ──► the open batch ── full? ──► queue ( newest ... oldest ) ── old enough? ──► below, a batch at a time
//
// A batch leaves kBytes of releases after the last of its blocks came, when another one is full: in one go when all of its blocks are of
// one class, else each to the magazine of its class, in one loop. A thread writes to one batch at a time, whichever classes it
// releases blocks of: what waits does not grow with their number. DelayedFree does the same for heaps without size classes, where what
// waits is no more than kBytes to the block, for three times the instructions.
//
// A use after free meets memory that is nobody's; with a fill it is found as well. Blocks larger than half of kBytes do not stay.
//
// A signal handler may release between any two instructions: one that finds its thread at work here goes past the quarantine, as does
// a release that needs more batches while the layer's lock is held, for which it does not wait.
//
// `trim` empties the quarantines of threads that sleep, too, and `check_waiting` looks there. A hit asks nobody: who comes from outside
// claims a thread, points its open batch at one that is always full, and orders that before what the thread does next by membarrier.
// So a hit either was seen at work, and then its thread is left alone, or misses, and sees the claim, and goes past the quarantine.
// When the OnFault slot goes on, the block leaves as if nothing had been written to it.
//
// What waits: the last kBytes of releases and at most two batches more, a block of less than 64 bytes counted as that.
// Bound: O(1), and O(a batch) for the release that finds it full. Progress: as below.
// Source: delayed free as in [Mortise24]; batches as in the magazines of [BonwickAdams01].
// Placement: above caches that take batches (CoreCache); HeaderMagic and TailChecksum above it see the program's own releases.
#pragma once

#include "mortise/core/core.hpp"
#include "mortise/data/thread_list.hpp"
#include "mortise/data/waiting_batch.hpp"
#include "mortise/guard/noted_crimes.hpp"
#include "mortise/guard/quarantine_lines.hpp"
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
/// `kBatchBytes` (64..64 KiB): so much a batch holds.
/// `OnFault`: what comes after a write after free.
template <std::size_t kBytes = 64_KiB, QuarantineFill Fill = fills::Untouched, std::size_t kBatchBytes = 16_KiB,
          OnFaultPolicy OnFault = on_fault::Configured>
struct DelayedBatches {
  static constexpr const char* kName = "DelayedBatches";
  static constexpr const char* kWhat = "a quarantine a thread: released blocks wait, and leave in batches";
  static constexpr const char* kNeeds = "a heap below with size classes that finds blocks by pointer and takes batches (CoreCache); "
                                        "with a fill, none with a guard that takes a part of each block";
  template <class Out> static void describe(Out& out) {
    out.layer(kName, kWhat).policy("Fill", Fill::kName).policy("OnFault", OnFault::kName)
        .number("bytes", kBytes).number("batch_bytes", kBatchBytes);
  }

  template <Locates Below> requires Classed<Below> && Batches<Below> && GivesMeta<Below> && (Fill::kFillBytes == 0 || !kIsShrunk<Below>)
  class Over : public Locked<Below, FutexLock> {
    using Batch = WaitingBatch<kBatchBytes>;
#ifdef MORTISE_THREAD_SANITIZER
    static constexpr bool kMayClaim = false;  // it knows nothing of membarrier
#else
    static constexpr bool kMayClaim = true;
#endif
    /// Batches come in groups, which a thread keeps until it ends.
    struct Group {
      static constexpr unsigned kBatches = 4;
      Shared<Group*> next;
      Batch batch[kBatches];
    };
    enum State : std::uint8_t { kClosed, kOpen, kAtWork };
    using Noted = NotedCrimes<OnFault>;

   public:
    static constexpr bool kTakesUnsized = true, kHitsAlone = std::is_empty_v<typename Below::Thread>;
    static constexpr std::size_t kNearBytes = kNearBytesOf<Below>;
    using Classes = typename Below::Classes;
    using Lines = QuarantineLines<Classes, Fill, Batch, kBytes, kBatchBytes>;
    using Line = typename Lines::Line;

    /// All zero: a thread that has not attached, whose releases go below at once. Written by its thread, or by who has claimed it; others
    /// glance at the batches, but never at the blocks in them, which may be gone.
    struct Thread {
      State state = kClosed;
      bool is_claimed = false;  ///< somebody empties it, under lock_
      Batch* open = nullptr;
      Shared<Batch*> oldest;  ///< the queue
      Shared<Batch*> newest;
      std::uint64_t clock = 0;  ///< bytes that batches were closed with so far
      Shared<Batch*> idle;
      Shared<Group*> groups;    ///< under lock_
      Shared<Thread*> next;     ///< in the list of attached threads; under lock_
      Shared<Thread*> prev;
      [[no_unique_address]] typename Below::Thread below{};
      static constexpr bool kRefusesAsZero = true;  ///< no hit writes to one that has not attached
    };

    MORTISE_HOT Block allocate(Thread& t, Request r) noexcept { return this->below.allocate(t.below, r); }
    MORTISE_HOT Block allocate_hit(Thread& t, Request r) noexcept requires Hits<Below> { return this->below.allocate_hit(t.below, r); }
    MORTISE_HOT Block allocate_hit_near(Thread& t, Request r) noexcept requires HitsNear<Below> {
      return this->below.allocate_hit_near(t.below, r);
    }

    /// Yes when the open batch has room: 18 instructions without a fill.
    MORTISE_HOT bool release_hit(Thread& t, Block b) noexcept {
      return release_hit_as(t, b.ptr, b.class_index(), [] {});
    }
    /// The same for what may be a class or any other byte, of which none has room. `taken` is called before the block is touched.
    template <class Taken> MORTISE_HOT bool release_hit_as(Thread& t, std::byte* p, std::size_t c, Taken&& taken) noexcept {
      return release_hit_by(t, p, Lines::kHit[c], c, taken);
    }
    /// What a hit knows of class `c`, in one line, for who looks at the size as well: `bytes()`, `size_class`.
    MORTISE_HOT static const Line& line_of(unsigned c) noexcept requires(Lines::kTellSizes) {
      const Line* line = &Lines::kHit[c];
      asm("" : "+r"(line));  // the compiler would find it anew for each of its fields
      return *line;
    }
    MORTISE_HOT bool release_hit_by(Thread& t, std::byte* p, const Line& line) noexcept requires(Lines::kTellSizes) {
      return release_hit_by(t, p, line, line.size_class, [] {});
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
      for (const Thread* t = threads_.first(); t && !place; t = t->next)
        each_waiting(*t, [&](const Batch& batch, unsigned i) {
          if (batch.block(i) == p) place = batch.freed_at(i);
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
      show(t.open, &none_);
      {
        Held held(this->lock_);
        threads_.push(&t);
      }
      set_state(t, kOpen);
    }
    /// The batches stay for another thread.
    void detach(Thread& t) noexcept {
      if (t.state != kClosed) {
        set_state(t, kClosed);  // first: what a signal handler releases from here on goes below
        {
          Held held(this->lock_);
          threads_.remove(&t);
        }
        empty(t, t);  // nobody finds it to claim it; a fault is answered without the lock, which a handler's fork would wait for
        t.idle = nullptr;
        Held held(this->lock_);
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
      for (const Thread* t = threads_.first(); t; t = t->next)
        each_waiting(*t, [&u](const Batch& batch, unsigned i) {
          const unsigned c = batch.size_class(i);
          u.in_transit(plain_class<Classes>(c), Classes::size_of(c), 1);
        });
    }
    std::size_t check_all(Thread& t) noexcept requires ChecksAll<Below> { return this->below.check_all(t.below); }

    /// Looks at the blocks that wait, which stay: this thread's, and those of others as for trim, unless the lock is held.
    /// O(threads + blocks).
    void check_waiting(Thread& t) noexcept requires(Fill::kFillBytes > 0) {
      if (t.state != kOpen) return;
      set_state(t, kAtWork);  // nobody claims it, and empties what is looked at
      if (!is_claimed(t)) each_waiting(t, [](const Batch& batch, unsigned i) { check(batch, i, nullptr); });
      Noted noted;
      if (can_claim_ && this->lock_.try_lock()) {
        each_other(t, [&](Thread& other) { each_waiting(other, [&](const Batch& batch, unsigned i) { check(batch, i, &noted); }); });
        this->lock_.unlock();
      }
      set_state(t, kOpen);
      noted.answer();
    }

   private:
    template <class Taken>
    MORTISE_HOT bool release_hit_by(Thread& t, std::byte* p, const Line& line, std::size_t c, Taken&& taken) noexcept {
      if (t.state != kOpen) [[unlikely]] return false;
      set_state(t, kAtWork);
      Batch& batch = *glance(t.open);
      const std::uint64_t head = batch.head(), step = line.step;
      if (!Batch::has_room(head + step)) [[unlikely]] {
        set_state(t, kOpen);
        return false;
      }
      taken();
      if constexpr (Lines::kHitsAreShort) Fill::template fill_short<Lines::kLeast>(p, line.length);
      else if constexpr (Fill::kFillBytes) Fill::fill(p, line.length);
      batch.put(head, step, p, static_cast<unsigned>(c), call_site());
      set_state(t, kOpen);
      return true;
    }

    /// Seen by signal handlers of this thread: nothing moves across it.
    MORTISE_HOT static void set_state(Thread& t, State state) noexcept {
      __atomic_signal_fence(__ATOMIC_SEQ_CST);
      show(t.state, state);
      __atomic_signal_fence(__ATOMIC_SEQ_CST);
    }
    template <class Each> static void each_waiting(const Thread& t, Each&& each) noexcept {
      for (const Group* group = t.groups; group; group = group->next)
        for (const Batch& batch : group->batch)
          for (unsigned i = 0, count = batch.count(); i < count; ++i) each(batch, i);
    }

    /// The open batch is full, or there is none, or the block does not stay.
    [[gnu::noinline]] void release_from(Thread& t, Block b, const void* site) noexcept {
      const unsigned c = b.class_index();
      if (Lines::kCostOf[c] == 0 || t.state != kOpen) return pass_by(t, b);
      set_state(t, kAtWork);
      const std::uint64_t step = Batch::step_of(Lines::kCostOf[c]);
      Batch* batch = is_claimed(t) ? nullptr : glance(t.open);
      if (batch && !Batch::has_room(batch->head() + step)) batch = close(t);
      if (batch) {
        if constexpr (Fill::kFillBytes) {
          Fill::fill(b.ptr, Lines::kHit[c].length);
          if (Lines::filled_of(c) >= Fill::kLongFrom) batch->has_long = true;
        }
        batch->put(batch->head(), step, b.ptr, c, site);
      }
      set_state(t, kOpen);
      if (!batch) pass_by(t, b);
    }
    void pass_by(Thread& t, Block b) noexcept {
      if (b.size_class != kNoClass) b.size = Classes::size_of(b.class_index());
      else if (b.is_unsized() && !kTakesUnsizedBlocks<Below>) b = this->below.measure(b);
      this->below.release(t.below, b);
    }

    /// Queues the open batch, lets the oldest go that are too many, and opens another; null without memory.
    Batch* close(Thread& t) noexcept {
      queue_open(t);
      while (t.oldest && t.clock - t.oldest->closed_at >= kBytes) leave(t, t);
      if (!t.idle || !t.idle->next) more(t);  // before the last one is needed: who is refused asks again
      Batch* const batch = t.idle;
      if (!batch) return nullptr;
      t.idle = batch->next.get();
      batch->open();
      show(t.open, batch);
      return batch;
    }
    void queue_open(Thread& t) noexcept {
      Batch* const batch = glance(t.open);
      if (batch == &none_) return;
      batch->next = nullptr;
      (t.newest ? t.newest->next : t.oldest) = batch;
      t.newest = batch;
      batch->closed_at = t.clock += batch->bytes();
      show(t.open, &none_);
    }

    /// The oldest batch of `t` goes below, on the account of `by`.
    void leave(Thread& by, Thread& t, Noted* noted = nullptr) noexcept {
      Batch& batch = *t.oldest;
      t.oldest = batch.next.get();
      if (!t.oldest) t.newest = nullptr;
      const unsigned count = batch.count(), c = batch.size_class(0);
      const bool is_of_one = batch.is_of_one_class();
      if constexpr (Fill::kFillBytes) {
        const auto length_of = [of = batch.classes()](unsigned i) -> const auto& { return Lines::kHit[of[i]].length; };
        const bool may_be_long = batch.has_long || !Lines::kHitsAreShort;  // hits tell nobody
        const bool is_whole = is_of_one ? Fill::are_whole(batch.blocks(), count, Lines::filled_of(c))
            : Fill::template are_whole_each<Lines::kLeast>(batch.blocks(), count, length_of, may_be_long);
        if (!is_whole) [[unlikely]]
          for (unsigned i = 0; i < count; ++i) check(batch, i, noted);
      }
      batch.clear();
      if (is_of_one) this->below.release_batch(by.below, c, batch.blocks(), count);
      else for (unsigned i = 0; (i += hits(by, batch, i, count)) < count; ++i) give_back(by, batch.block(i), batch.size_class(i));
      put_idle(t, batch);
    }
    /// As many blocks from number `first` on as below has room for at once.
    unsigned hits(Thread& by, Batch& batch, unsigned first, unsigned count) noexcept {
      if constexpr (requires(std::byte** in, const std::uint8_t* classes) { this->below.release_hits(by.below, in, classes, count); })
        return this->below.release_hits(by.below, batch.blocks() + first, batch.classes() + first, count - first);
      else return 0;
    }
    void give_back(Thread& by, std::byte* p, unsigned c) noexcept { this->below.release(by.below, {p, Classes::size_of(c), c}); }
    static void put_idle(Thread& t, Batch& batch) noexcept {
      batch.next = t.idle.get();
      t.idle = &batch;
    }
    void empty(Thread& by, Thread& t) noexcept {
      queue_open(t);
      while (t.oldest) leave(by, t);
    }

    MORTISE_HOT static bool is_claimed(const Thread& t) noexcept {
      __atomic_signal_fence(__ATOMIC_SEQ_CST);
      return glance(t.is_claimed);
    }
    void empty_others(Thread& by) noexcept {
      Noted noted;
      {
        Held held(this->lock_);
        each_other(by, [&](Thread& t) { while (t.oldest) leave(by, t, &noted); });
      }
      if constexpr (Fill::kFillBytes) noted.answer();
    }
    /// Calls `see` of the quarantine of each thread but `by` that is not at work, under the lock; its open batch may leave earlier than it
    /// would have.
    template <class See> void each_other(Thread& by, See&& see) noexcept {
      if (!threads_.first() || (threads_.first() == &by && !by.next)) return;
      const auto each_claimed = [&](auto&& act) {
        for (Thread* t = threads_.first(); t; t = t->next)
          if (t->is_claimed) act(*t);
      };
      const auto give_up_at_work = [&] {
        each_claimed([](Thread& t) {
          if (glance(t.state) != kOpen) show(t.is_claimed, false);
        });
      };
      for (Thread* t = threads_.first(); t; t = t->next) show(t->is_claimed, t != &by);
      // Each barrier orders what is above it, here and there, before what is below. Twice: claims before looking, and what was done
      // by threads that were seen to have ended their work before taking it over.
      bool is_ordered = os::order_all_threads();
      give_up_at_work();
      if ((is_ordered = is_ordered && os::order_all_threads())) each_claimed([&](Thread& t) { queue_open(t); });
      is_ordered = is_ordered && os::order_all_threads();
      give_up_at_work();  // a hit that began before its batch was queued may still be writing to it
      if (is_ordered && os::order_all_threads()) each_claimed(see);
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

    static void check(const Batch& batch, unsigned i, Noted* noted) noexcept {
      const unsigned c = batch.size_class(i);
      if (Fill::is_whole(batch.block(i), Lines::filled_of(c))) return;
      const Crime crime{.fault = Fault::write_after_free, .block = {batch.block(i), Classes::size_of(c), c}, .freed_at = batch.freed_at(i)};
      if (noted) noted->note(crime); else OnFault::answer(crime);
    }

    bool can_claim_ = false;
    Batch none_ = {};  ///< what is open where no batch is: it has no room; never written
    ThreadList<Thread> threads_;
    Shared<Group*> spare_;
  };
};

}  // namespace mortise
