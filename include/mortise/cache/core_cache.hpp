// A cache of free blocks for each core: the hit path of malloc and free. No lock, no atomic read-modify-write.
//
//   malloc(n)  ── n < gate? ── class by one load ── section: pop from this core's magazine ── done            20 instructions
//                  │ no: larger class by arithmetic            │ empty: refill() ── a batch from below
//   free(p)    ── class map (PageIndex) ──────────── section: push to this core's magazine ── done             21 instructions
//                                                              │ full: spill() ── half of it below
//
// A magazine is a bounded stack of pointers; those of a core are a rack (os/rseq.hpp) in the core's *set*. A limit starts small and doubles
// when it misses, up to what its class may hold; bounds are divided among the cores. A program that takes a thousand blocks and then frees
// a thousand may keep a 24th part of this swing. If it goes on so, or if the blocks are small, go home in order and fit into the second
// cache, it keeps all, up to 64 times what its class may hold otherwise (cache/swing.hpp), in slots of its own (cache/core_set.hpp).
//
// Steal and drain: the table entry of a core is pointed to the closed set, running sections are restarted (membarrier), and the
// set is then nobody's but ours. Threads on that core miss meanwhile and are served from below.
//
// Where classes have colours (policy/coloured.hpp), a core takes blocks of its own colour only; what it frees of another colour waits
// in a magazine of that colour and goes down whole when that is full. own_table_ points at the core's colour within its set, so
// that this costs the hit path nothing. What cores of another memory node free (route/per_node.hpp) waits and goes likewise.
//
// Where it is metered, a core counts the bytes of its hits down and misses when they run out, for a layer above that takes samples.
//
// Before start the gates are 0 and every call takes the miss path: an all-zero cache is a valid, closed one.
//
// Progress: hit wait-free but for restarts by preemption; misses as below. Source: [BonwickAdams01] magazines, [Desnoyers15].
// Placement: on top, or under guards. Needs classes, batches and PageIndex's class map below.
#pragma once

#include <cstring>

#include "mortise/cache/core_set.hpp"
#include "mortise/core/core.hpp"
#include "mortise/data/idle_numbers.hpp"
#include "mortise/data/preset.hpp"
#include "mortise/os/alone.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/os/rseq.hpp"
#include "mortise/policy/coloured.hpp"
#include "mortise/policy/distribution.hpp"
#include "mortise/sync/atomics.hpp"
#include "mortise/sync/fork_attempt.hpp"
#include "mortise/sync/futex_lock.hpp"

namespace mortise {

/// `kBytesPerClass` (0..16 MiB): the most a core keeps of one class, in bytes, or a part of a swing, of steady ones and of small blocks
/// that return up to 64 times that; never fewer than 2 blocks.
/// `Distribution`: whose magazines serve a call. By core, they are the thread's own where sections cannot be restarted.
/// `kMetered` (0..1): a hit counts its bytes on the core's meter, at two instructions more.
template <std::size_t kBytesPerClass = 64_KiB, SeparatingRule Distribution = by_core, unsigned kMetered = 0> struct CoreCache {
  static constexpr const char* kName = "CoreCache";
  static constexpr const char* kWhat = "a magazine of free blocks for each core and class, changed by restartable sequences";
  static constexpr const char* kNeeds = "size classes and batches below (BatchedFree or Slab)";
  template <class Out> static void describe(Out& out) {
    out.layer(kName, kWhat).number("bytes_per_class", kBytesPerClass).number("slots", os::kMagazineSlots);
    out.policy("Distribution", Distribution::kName).number("metered", kMetered);
  }

  template <Heap Below> requires Classed<Below> && Batches<Below> && (!kSizesExactly<Below>) class Over : public Passthrough<Below> {
    using Set = CoreSet<typename Below::Classes, kBytesPerClass>;  ///< made on first use
    using Rack = typename Set::Rack;

   public:
    using typename Passthrough<Below>::Thread;
    using Classes = typename Below::Classes;
    static constexpr Progress kProgress = {Guarantee::wait_free, Below::kProgress.refill, Below::kProgress.grow};
    static constexpr std::size_t kNearBytes = [] {  // sizes up to here are taken in this core's colour
      if constexpr (colours_of<Classes>() == 1) return Classes::kMaxBytes; else return Classes::kColouredBytes;
    }();

    MORTISE_HOT Block allocate_hit(Thread& t, Request r) noexcept {
      if (r.align > kMinAlign) [[unlikely]] return {};
      if (r.size < own_gate_) [[likely]] return allocate_hit_near(t, r);
      if (kOneColour || r.size >= gate_) [[unlikely]] return {};
      return zeroed_if_asked(pop(table(), Classes::class_of(r.size), r.size), r);
    }
    /// Without a look at the gate: until it opens there is no table, and when it has closed again all racks are closed, too.
    MORTISE_HOT Block allocate_hit_near(Thread&, Request r) noexcept {
      return zeroed_if_asked(pop(own_table(), Classes::class_of(r.size), r.size), r);
    }
    MORTISE_HOT bool release_hit(Thread&, Block b) noexcept {
      return Rack::push(area_, table(), b.class_index(), b.ptr);
    }
    /// As many hits, each of its own class, until one finds no room; returns how many.
    unsigned release_hits(Thread&, std::byte* const* in, const std::uint8_t* classes, unsigned n) noexcept {
      return Rack::push_each(area_, table(), in, classes, n);
    }

    Block allocate(Thread& t, Request r) noexcept {
      if (r.size > Classes::kMaxBytes || r.align > kMinAlign || !gate_ || grows_past<Below>(r)) return this->below.allocate(t, r);
      const unsigned c = own_class_of(r.size);
      std::byte* p = Rack::pop(area_, table(), c);
      if (!p && !(p = refill(t, c))) [[unlikely]] return {};
      if (r.zeroed) std::memset(p, 0, r.size);
      return {p, Classes::size_of(c), c};
    }
    void release(Thread& t, Block b) noexcept {
      if (b.size_class == kNoClass) [[unlikely]] return this->below.release(t, b);
      if (!release_hit(t, b)) spill(t, b);
    }

    /// As many as this core's magazine has room for stay there; the rest goes below.
    void release_batch(Thread& t, unsigned c, std::byte** in, unsigned n) noexcept {
      const unsigned kept = Rack::give(area_, table(), c, in, n);
      if (kept < n) spill_batch(t, c, in, n - kept);
    }

    bool start(const os::Facts& facts) noexcept {
      if (!start_below(this->below, facts)) return false;
      Held held(lock_);
      if (gate_) return true;
      area_ = Distribution::kMayChange || !facts.rseq.is_kernels ? facts.rseq : facts.own;
      can_restart_ = area_.is_kernels && facts.can_restart, near_bytes_ = facts.second_cache_bytes;
      watch_thread_ = facts.watch_thread, numbers_threads_ = facts.numbers_threads, home_ = area_.is_kernels ? facts.home : nullptr;
      // Every core and every class may fill up in turn; with many cores each keeps a share.
      share_ = facts.cpus <= kFullShareCpus ? 1 : (facts.cpus + kFullShareCpus - 1) / kFullShareCpus;
      for (auto& set : table_) set.store(closed(), Order::relaxed);
      if constexpr (!kOneColour)
        for (auto& set : own_table_) set.store(closed(), Order::relaxed);
      gate_ = Classes::kMaxBytes + 1;
      own_gate_ = kNearBytes + 1;
      return true;
    }

    /// With an area of its own a thread has an index of its own; index 0 stays closed and serves threads beyond the table. What
    /// a thread still frees after it has detached (libc does, last of all) goes below: an index taken then would be lost.
    void attach(Thread& t) noexcept {
      if (!area_.is_kernels) take_index();  // before another one below does: who detaches first gives it back
      attach_below(this->below, t);
    }
    void detach(Thread& t) noexcept {
      if (!area_.is_kernels) give_index(t);
      detach_below(this->below, t);
    }

    /// Empties the magazines of all cores, then trims below. Where sections cannot be restarted, only this thread's.
    std::size_t trim(Thread& t) noexcept {
      if (can_restart_) {
        for (unsigned i = 0; i < used_.load(Order::acquire); ++i) drain_core(t, i);
      } else if (!area_.is_kernels) {
        const std::uint32_t i = os::rseq_index(area_);
        if (i && i < used_.load(Order::acquire)) drain_core(t, i);
      }
      return trim_below(this->below, t);
    }

    /// What the meter that counts hits of so many bytes here and now is at; false when none does. One that nobody has set: kMeterUnset.
    bool read_meter(std::size_t bytes, std::int64_t& left) noexcept requires (kMetered != 0) {
      std::byte* const set = metered_set(bytes);
      if (set) left = Rack::meter_now(set);
      return set;
    }
    void set_meter(std::size_t bytes, std::int64_t left) noexcept requires (kMetered != 0) {
      if (std::byte* const set = metered_set(bytes)) Rack::set_meter(set, left);
    }

    /// Blocks that magazines hold stay there.
    void close() noexcept {
      Held held(lock_);
      is_closed_ = true, own_gate_ = gate_ = 0;
      for (unsigned i = 0; i < used_.load(Order::relaxed); ++i) show(i, closed(), Order::release);
    }

    void lock_all() noexcept { hold(lock_), lock_below(this->below); }
    void unlock_all() noexcept { unlock_below(this->below), let_go(lock_); }
    void reset_after_fork() noexcept {
      lock_.reset();
      // A set that a thread of the parent was draining opens again: that thread is not here to do it.
      for (unsigned i = 0; i < used_.load(Order::relaxed); ++i)
        if (std::byte* set = sets_[i].load(Order::relaxed)) {
          at(set).widening.store(0, Order::relaxed);
          if (!is_closed_) show(i, set, Order::relaxed);
        }
      reset_below(this->below);
    }
    /// Counts are read while other cores change them: exact when they rest.
    void tell(Usage& u) noexcept {
      tell_below(this->below, u);
      Held held(lock_);  // no magazine moves meanwhile
      for (unsigned i = 0; i < used_.load(Order::acquire); ++i)
        if (std::byte* const set = sets_[i].load(Order::acquire))
          for (unsigned c = 1; c <= Classes::kCount; ++c)
            u.in_cache(i, plain_class<Classes>(c), Classes::size_of(c), at(set).rack.count_now(c));
    }

   private:
    static constexpr unsigned kSetsMax = os::kCpusMax;
    static constexpr std::uint32_t kEnded = kSetsMax;  ///< the index of a thread that has detached: always closed
    static constexpr unsigned kFullShareCpus = 16, kBatchMax = Set::kBatchMax, kDrained = 1024;
    static constexpr bool kOneColour = colours_of<Classes>() == 1;

    MORTISE_HOT static Block zeroed_if_asked(Block b, Request r) noexcept {
      if (r.zeroed && b) std::memset(b.ptr, 0, r.size);
      return b;
    }
    /// Where it was found tells which colour it has.
    MORTISE_HOT Block pop(std::byte* const* table, unsigned c, [[maybe_unused]] std::size_t bytes) noexcept {
      const std::byte* from;
      std::byte* p;
      if constexpr (kMetered) p = Rack::pop_metered(area_, table, c, bytes, from);
      else p = Rack::pop(area_, table, c, from);
      return p ? Block{p, Classes::size_of(c), kOneColour ? c : Rack::number_of(from, c)} : Block{};
    }
    /// Small sizes are counted where the core's colour begins, others where its set does.
    std::byte* metered_set(std::size_t bytes) noexcept {
      if (bytes >= gate_) return nullptr;
      std::byte* const set = own_set();
      return set && bytes < own_gate_ ? own_part(set, os::rseq_index(area_)) : set;
    }
    static std::byte* own_part(std::byte* set, std::uint32_t i) noexcept {
      if constexpr (kOneColour) return set;
      else return Rack::entry(set, Classes::offset_of(Distribution::spread(i, colours_of<Classes>())));
    }

    MORTISE_HOT std::byte* const* table() noexcept { return table_[0].address(); }
    MORTISE_HOT std::byte* const* own_table() noexcept {
      if constexpr (kOneColour) return table_[0].address(); else return own_table_[0].address();
    }
    /// The class that a request of this core is served from. The core may change meanwhile: then a block of another colour is
    /// taken, which costs a shared line and nothing else.
    unsigned own_class_of(std::size_t size) noexcept {
      if constexpr (kOneColour) return Classes::class_of(size); else return Classes::in_colour(Classes::class_of(size), own_colour());
    }
    unsigned own_colour() noexcept { return Distribution::spread(os::rseq_index(area_), colours_of<Classes>()); }
    bool is_foreign(unsigned c) noexcept {
      if (home_ && !home_->has(os::rseq_index(area_))) return true;
      if constexpr (kOneColour) return false; else return c != Classes::in_colour(Classes::plain(c), own_colour());
    }
    /// Lets sections of core `i` find `set`.
    void show(std::uint32_t i, std::byte* set, Order order) noexcept {
      if constexpr (!kOneColour) own_table_[i].store(set == closed() ? set : own_part(set, i), order);
      table_[i].store(set, order);
    }
    static Set& at(std::byte* set) noexcept { return *reinterpret_cast<Set*>(set); }
    std::byte* closed() noexcept { return reinterpret_cast<std::byte*>(&closed_); }

    // -- misses

    MORTISE_COLD std::byte* refill(Thread& t, unsigned c) noexcept {
      std::byte* batch[kBatchMax + 1];
      const unsigned limit = widen(c, false);
      const unsigned got = this->below.allocate_batch(t, c, batch, Set::batch_of(limit) + 1);
      if (!got) return nullptr;
      note_swing(c, static_cast<std::int32_t>(got));
      // The lowest address goes to the program, the next lowest is popped next.
      std::byte* const first = batch[0];
      const unsigned kept = Rack::give(area_, table(), c, batch + 1, got - 1);
      if (kept < got - 1) this->below.release_batch(t, c, batch + 1, got - 1 - kept);
      return first;
    }

    MORTISE_COLD void spill(Thread& t, Block b) noexcept {
      const unsigned c = b.class_index();
      const bool foreign = is_foreign(c);
      const unsigned limit = widen(c, foreign);
      if (Rack::push(area_, table(), c, b.ptr)) return;
      std::byte* batch[kBatchMax + 1];
      // Half of what may be wanted here again; all of what another colour waits for.
      unsigned n = Rack::take(area_, table(), c, batch, foreign && limit <= kBatchMax ? limit : Set::batch_of(limit));
      batch[n++] = b.ptr;
      this->below.release_batch(t, c, batch, n);
      note_swing(c, -static_cast<std::int32_t>(n), batch);
    }

    [[gnu::noinline]] void spill_batch(Thread& t, unsigned c, std::byte** in, unsigned n) noexcept {
      const bool foreign = is_foreign(c);
      const unsigned limit = widen(c, foreign);
      n -= Rack::give(area_, table(), c, in, n);
      if (!n) return;
      this->below.release_batch(t, c, in, n);
      note_swing(c, -static_cast<std::int32_t>(n), in);
      if (!foreign) return;
      std::byte* batch[kBatchMax];  // what waits for another colour goes with it
      if (const unsigned more = Rack::take(area_, table(), c, batch, limit)) this->below.release_batch(t, c, batch, more);
    }

    /// Doubles the limit of this core's magazine up to what its class may hold, and returns it; 0 while the core has no set.
    unsigned widen(unsigned c, bool foreign) noexcept {
      std::byte* const own = own_set();
      if (!own) return 0;
      Set& set = at(own);
      if (set.widening.exchange(1, Order::acquire)) return Set::kFewAtOnce;  // by a thread of this core, which may be moving the magazine
      const unsigned now = set.rack.limit_now(c);
      unsigned limit = set.wider(c, now, share_, near_bytes_, foreign ? kBatchMax : ~0u);
      if (limit > os::kMagazineSlots && !set.is_long[c] && !lengthen(own, c)) limit = os::kMagazineSlots;
      set.rack.set_limit(c, limit);
      set.widening.store(0, Order::release);
      return limit;
    }
    /// Slots of its own for a magazine, as many as its class may ever hold. False without memory, on another core, and amid a drain.
    MORTISE_COLD bool lengthen(std::byte* own, unsigned c) noexcept {
      Set& set = at(own);
      if (area_.is_kernels && !can_restart_) return false;
      Held held(lock_);  // a fork waits: in the child nobody would go on
      if (is_closed_ || table_[set.number].load(Order::acquire) != own) return false;
      show(set.number, closed(), Order::release);
      const bool alone = os::rseq_alone_on(area_, set.number);  // first: each miss that finds itself elsewhere would leave slots behind
      std::byte* const slots = alone ? this->below.meta(Set::part(Set::kLongSlots[c], share_) * sizeof(std::byte*)) : nullptr;
      if ((set.is_long[c] = slots)) set.rack.move(c, reinterpret_cast<std::byte**>(slots));
      show(set.number, own, Order::release);
      return set.is_long[c];
    }
    void note_swing(unsigned c, std::int32_t moved, std::byte* const* home = nullptr) noexcept {
      if (std::byte* const set = Set::swings(c) ? own_set() : nullptr) at(set).note_swing(c, moved, home);
    }
    /// The set of the core we are on, made on first use. Null for indices beyond the table and while somebody drains it.
    std::byte* own_set() noexcept {
      std::uint32_t i = os::rseq_index(area_);
      if (!area_.is_kernels && i == 0) i = take_index();
      if (i >= kSetsMax || (!area_.is_kernels && i == 0) || is_closed_) return nullptr;
      if (std::byte* set = sets_[i].load(Order::acquire)) [[likely]] return set;
      return make_set(i);
    }
    MORTISE_COLD std::byte* make_set(std::uint32_t i) noexcept {
      Held held(lock_);
      if (std::byte* set = sets_[i].load(Order::relaxed)) return set;
      std::byte* set = this->below.meta(sizeof(Set) + (kOneColour ? 0 : Rack::kAlign));
      if (!set) return nullptr;
      if constexpr (!kOneColour) set += -reinterpret_cast<std::uintptr_t>(set) % Rack::kAlign;
      at(set).place(i);
      for (std::byte* part : {set, own_part(set, i)}) if constexpr (kMetered) Rack::set_meter(part, kMeterUnset);
      sets_[i].store(set, Order::release);
      show(i, set, Order::release);
      if (used_.load(Order::relaxed) <= i) used_.store(i + 1, Order::release);
      return set;
    }

    // -- indices of threads that have an area of their own

    os::OwnArea& own_area() noexcept {
      return *reinterpret_cast<os::OwnArea*>(static_cast<std::byte*>(__builtin_thread_pointer()) + area_.offset);
    }
    MORTISE_COLD std::uint32_t take_index() noexcept {
      if (own_area().index || !numbers_threads_) return static_cast<std::uint32_t>(own_area().index);
      const std::uint32_t i = [&] { Held held(lock_); return indices_.take(); }();
      if (!i) return 0;
      own_area().index = i;
      if (watch_thread_) watch_thread_();
      return i;
    }
    void give_index(Thread& t) noexcept {
      const auto i = static_cast<std::uint32_t>(own_area().index);
      if (numbers_threads_) own_area().index = kEnded;
      if (!i || i >= kEnded) return;
      drain_core(t, i);  // where the index stays the thread's, its signal handlers find it closed
      if (Held held(lock_); numbers_threads_) indices_.give(i);
    }

    // -- draining

    void drain_core(Thread& t, unsigned i) noexcept {
      std::byte* set;
      {
        Held held(lock_);
        set = sets_[i].load(Order::acquire);
        const bool is_open = table_[i].load(Order::acquire) == set;
        if (!set || (!is_open && (area_.is_kernels || !is_closed_))) return;  // none, or somebody else is at it
        show(i, closed(), Order::release);
      }
      // From here on no new section finds the set; those that run are restarted or have ended when this returns. A set that
      // only this thread uses is out of reach already, for its signal handlers too.
      if (!area_.is_kernels || os::rseq_restart_all()) drain_set(t, set);
      if (!is_closed_) show(i, set, Order::release);  // pairs with the acquire above: the next drain finds what this one left
    }
    void drain_set(Thread& t, std::byte* set) noexcept {
      for (unsigned c = 1; c <= Classes::kCount; ++c) {
        Rack& magazines = at(set).rack;
        at(set).swing[c].forget();
        if (magazines.limit_now(c)) magazines.set_limit(c, Set::first_limit(c, share_));
        for (unsigned n; (n = magazines.count(c));) {
          const unsigned some = n < kDrained ? n : kDrained;
          magazines.set_count(c, n - some);
          this->below.release_batch(t, c, magazines.slots(c) + n - some, some);
        }
      }
    }

    // The first line is what malloc() and free() read.
    std::size_t own_gate_ = 0, gate_ = 0;
    os::RseqArea area_;
    bool can_restart_ = false, is_closed_ = false, numbers_threads_ = false;
    Preset<1u> share_;
    std::size_t near_bytes_ = 0;  ///< blocks that return stay while they fit into so many
    const os::HomeNode* home_ = nullptr;
    void (*watch_thread_)() noexcept = nullptr;
    Atomic<std::byte*> table_[kSetsMax + 1] = {};
    Atomic<std::byte*> own_table_[kOneColour ? 1 : kSetsMax + 1] = {};  ///< the same sets, from where the core's colour begins
    Rack closed_ = {};
    FutexLock lock_;
    Atomic<std::uint32_t> used_{0};
    Atomic<std::byte*> sets_[kSetsMax] = {};
    IdleNumbers<kSetsMax> indices_;
  };
};

}  // namespace mortise
