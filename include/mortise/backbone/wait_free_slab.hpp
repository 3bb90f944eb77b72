// Slabs whose every allocation and release ends within a stated number of its own steps, whatever other threads do.
//
//   malloc  ── this thread's slot: a block freed before, or the next of a word ── done                              hit
//                 └─ refill: a word that was about to go home; or one exchange takes a word of a span ── done       refill
//                 └─ a span that the slot keeps or of the reserve, or what a thread that has ended left ── done     refill
//                 └─ grow: the layer below is asked, which may wait; counted                                        grow
//   free    ── this thread's slot, while it has room ── done                                                        hit
//                 └─ waits for its neighbours in the slot; what waited departs ── done                              hit
//   errands ── a malloc or two later: one atomic addition to the bitmap of their span, whoever's it is
//
// 1. Blocks of one word that do not fit into the freeing thread's slot, freed one after the other, go home by one atomic addition; there
// are no lists of remote frees, so nothing is half linked when a thread stops. 2. Whoever puts the first block into a span that had none,
// or the last that was missing, sets one bit in the bin of hints of the span's slot; a span of his own is listed at once. 3. What is left
// to do - a word goes home, a hint is told, hints are looked at and a complete span leaves, the next word of a class is fetched, a span is
// adopted for it - is done one step a call, by mallocs that are hits but for that, by refills, and by frees that no malloc comes between. A
// step touches what the one before it asked for, unless words set out faster than steps are made. A few complete spans are kept.
//
// Threads beyond the table, and calls of threads that have not attached, use any free slot for one call, or wait for the one that is
// kept for them. In the child of a fork, slots of the parent's other threads stay as they were: what they had is lost to the child.
//
// Bound: docs/6-proof.md counts every step. Memory: a thread that stops anywhere keeps what its slot has, one span on its way, and hides
// at most two spans of others from reuse: one that it is to tell of, and one whose mark it was about to set. Progress: hit and refill
// wait-free, grow as below. Source: ownership and remote frees as in [Leijen19], by bitmaps; constant-time refills after [BlellochWei20];
// lists that need not be linearisable as in [OuyangZhu22]. Placement: above SpanReserve. Above it guards and shapes; no cache is needed.
#pragma once

#include <cstring>

#include "mortise/backbone/wait_free_slots.hpp"
#include "mortise/backbone/wait_free_usage.hpp"
#include "mortise/core/core.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/policy/size_classes.hpp"
#include "mortise/shape/page_index.hpp"
#include "mortise/sync/fork_attempt.hpp"
#include "mortise/sync/futex_lock.hpp"

namespace mortise {

/// `SizeClassesT`: which class serves a size.
/// `kThreads` (2..65536): how many threads have a slot of their own at a time.
template <PlainSizeMap SizeClassesT = classes::Geometric<8, 64_KiB>, unsigned kThreads = 512> struct WaitFreeSlab {
  static_assert(kThreads >= 2 && kThreads <= 65536, "slot numbers fit 16 bits; one slot is for calls without one");
  static constexpr const char* kName = "WaitFreeSlab";
  static constexpr const char* kWhat = "slabs with bounded steps: a slot a thread, frees go home by one atomic addition";
  static constexpr const char* kNeeds = "a reserve of spans that never waits directly below (SpanReserve)";
  template <class Out> static void describe(Out& out) {
    out.layer(kName, kWhat).policy("SizeClasses", SizeClassesT::kName).number("classes", SizeClassesT::kCount)
        .number("block_bytes_max", SizeClassesT::kMaxBytes).number("threads", kThreads);
  }

  template <Indexed Below> requires GivesMeta<Below> && (Below::kSpanGuarantee == Guarantee::wait_free)
  class Over : public Passthrough<Below> {
    using Slot = WaitFreeSlot<SizeClassesT>;
    using Geometry = WaitFreeGeometry<SizeClassesT>;

   public:
    using Classes = SizeClassesT;
    using Index = IndexOf<Below>;
    static constexpr Progress kProgress = {Guarantee::wait_free, Guarantee::wait_free, Below::kProgress.grow};
    static constexpr unsigned kLooks = 1;   ///< steps on the way from hints to spans in one refill
    static constexpr unsigned kVisits = 2;  ///< slots without a thread that one refill looks into
    static constexpr unsigned kVisitLooks = 2;
    static constexpr unsigned kAlone = 3;   ///< frees in a row that leave errands to the next malloc
    static constexpr unsigned kChoreEvery = 64;  ///< errands of which one is a chore, however many words are on their way
    static constexpr unsigned kGrowLooks = 64;  ///< and before the heap grows

    struct Thread {
      Slot* slot = nullptr;  ///< null: not attached, or no slot was free
      Slot* calm = nullptr;  ///< the same slot; null while errands are known of, but for a look of a large malloc
      unsigned visited = 0;  ///< the slot that was looked into last
      unsigned frees_alone = 0;  ///< frees with something on its way since the last malloc; here, for a line less than in the slot
      [[no_unique_address]] typename Below::Thread below{};
      static constexpr bool kLiesInRecord = true;  ///< no hit without `calm`
    };

    MORTISE_HOT Block allocate_hit(Thread& t, Request r) noexcept {
      if (r.size > Classes::kMaxBytes || r.align > kMinAlign || !t.calm) [[unlikely]] return {};
      const unsigned c = Classes::class_of(r.size);
      std::byte* const p = t.calm->pop(c, &t.calm);
      if (!p) [[unlikely]] return {};
      if (r.zeroed) std::memset(p, 0, r.size);
      return {p, Classes::size_of(c), c};
    }
    /// Takes every block that has a class: into the slot, or home.
    MORTISE_HOT bool release_hit(Thread& t, Block b) noexcept {
      if (b.size_class == kNoClass) [[unlikely]] return false;
      if (!t.calm || !t.calm->push(b.class_index(), b.ptr)) [[unlikely]] release_aside(t, b.class_index(), b.ptr);
      return true;
    }

    Block allocate(Thread& t, Request r) noexcept {
      if (r.size > Classes::kMaxBytes) [[unlikely]] return allocate_large(t, r);
      if (r.align > kMinAlign) [[unlikely]] return {};
      const unsigned c = Classes::class_of(r.size);
      std::byte* p;
      if (t.slot) [[likely]] {
        p = t.slot->pop(c);
        if (p) step(*t.slot);
        else p = refilled(t, *t.slot, c);
        t.frees_alone = 0;
        calm_down(t);
      } else {
        Guest guest(*this);
        p = guest.slot ? refilled(t, *guest.slot, c) : nullptr;
      }
      if (!p) return {};
      if (r.zeroed) std::memset(p, 0, r.size);
      return {p, Classes::size_of(c), c};
    }
    void release(Thread& t, Block b) noexcept {
      if (b.size_class == kNoClass) [[unlikely]] return this->below.release(t.below, b);
      release_hit(t, b);
    }

    MORTISE_HOT Block measure(Block b) noexcept {
      if (b.size_class == kNoClass) b = this->block_of(b.ptr);  // unsized blocks may not know their class
      if (b.size_class == kNoClass) return this->below.measure(b);
      return {b.ptr, Classes::size_of(b.class_index()), b.class_index()};
    }
    /// A block stays on its side: small ones in their class, large ones while they are large.
    Block resize_in_place(Thread& t, Block b, std::size_t n) noexcept {
      if (b.size_class != kNoClass) return n <= Classes::size_of(b.class_index()) ? measure(b) : Block{};
      return n > Classes::kMaxBytes ? resize_below(this->below, t.below, b, n) : Block{};
    }
    Block resize_by_moving(Thread& t, Block b, std::size_t n) noexcept requires Moves<Below> {
      return b.size_class == kNoClass && n > Classes::kMaxBytes ? this->below.resize_by_moving(t.below, b, n) : Block{};
    }

    void attach(Thread& t) noexcept {
      attach_below(this->below, t.below);
      t.slot = claim(1);
      if (t.slot) t.slot->stop_restocking(), calm_down(t);  // what guests wanted is not for it
    }
    /// The slot stays as it is for the next thread; blocks kept for reuse go home, empty spans to the reserve. O(slot).
    void detach(Thread& t) noexcept {
      if (Slot* const slot = t.slot) {
        t.slot = t.calm = nullptr;
        compiler_fence();  // a signal's handler takes nothing from a slot that is being emptied, or is another thread's already
        empty(*slot);
        slots_.leave(*slot);
      }
      detach_below(this->below, t.below);
    }

    std::size_t trim(Thread& t) noexcept {
      if (t.slot) empty(*t.slot);
      if (guests_.try_lock()) {  // so that a fork finds nobody in slot 0
        tidy(0);
        guests_.unlock();
      }
      for (unsigned i = 1; i < kThreads; ++i) tidy(i);
      return trim_below(this->below, t.below);
    }
    bool reserve(Thread& t, Reserve r) noexcept { return this->below.reserve(t.below, r); }
    void lock_all() noexcept { hold(guests_), lock_below(this->below); }
    void unlock_all() noexcept { unlock_below(this->below), let_go(guests_); }
    void reset_after_fork() noexcept {
      guests_.reset();
      reset_below(this->below);
    }

    /// Counts while others go on: exact when they rest. O(granules of the heap).
    void tell(Usage& u) noexcept {
      tell_below(this->below, u);
      each_wait_free_span(index(), [&](WaitFreeSpan& s, unsigned c) { tell_span<Classes>(s, c, u); });
      for (unsigned i = 0; i < slots_.used(); ++i)
        if (const Slot* const slot = slots_.at(i)) tell_slot(*slot, u);
    }
    /// Walks every span and reports heap_inconsistent when a count and a bitmap disagree. O(granules of the heap).
    void audit() noexcept {
      if constexpr (Audits<Below>) this->below.audit();
      each_wait_free_span(index(), [&](WaitFreeSpan& s, unsigned c) { audit_span(s, c, slot_of()(s.owner.load(Order::relaxed))); });
    }

   private:
    /// A slot for one call of a thread without one; slot 0, if there is none, with `guests_`: it is nobody's in the child of a fork.
    struct Guest {
      Over& heap;
      Slot* slot;
      const bool waits;
      explicit Guest(Over& h) noexcept : heap(h), slot(h.claim(1)), waits(!slot) {
        if (waits) h.guests_.lock(), slot = h.claim(0, 1);
      }
      ~Guest() {
        if (slot) slot->tidings.tell(), heap.slots_.leave(*slot);
        if (waits) heap.guests_.unlock();
      }
    };

    Index& index() noexcept { return this->below.page_index(); }
    WaitFreeSpan* record_of(const std::byte* base) noexcept {
      return reinterpret_cast<WaitFreeSpan*>(index().bits_at(index().number_of(base)));
    }
    auto slot_of() noexcept {
      return [this](unsigned n) -> Slot& { return *slots_.at(n); };
    }
    [[noreturn]] MORTISE_COLD static void accuse(Fault f, unsigned c, std::byte* p) noexcept { report(f, {p, Classes::size_of(c), c}); }
    void calm_down(Thread& t) noexcept {
      if ((t.calm = t.slot->has_errands() ? nullptr : t.slot)) t.frees_alone = 0;
    }
    /// A free for which the slot has no room, or while something is on its way: errands are left to malloc, unless frees follow each other;
    /// one for which there is no room does no more than tell or ask. Blocks that do not stay go home with neighbours that are freed next.
    /// Reports double and invalid frees, some of them only when the block is home. All calls come last: most frees make none.
    [[gnu::noinline]] void release_aside(Thread& t, unsigned c, std::byte* p) noexcept {
      if (!t.slot) [[unlikely]] return send_home(nullptr, c, p);
      Slot& slot = *t.slot;
      const bool is_kept = !t.calm && slot.push(c, p);  // a slot that is calm has no room
      if (!is_kept) {
        const unsigned i = Geometry::number_in_word(c, p);
        if (i == Geometry::kNoBlock) [[unlikely]] return accuse(Fault::invalid_free, c, p);
        WaitFreeWord leaves;
        if (!slot.send(c, p - i * Classes::size_of(c), i, leaves)) [[unlikely]] return accuse(Fault::double_free, c, p);
        if (leaves.bits) return set_out(t, leaves.at, leaves.bits, c);
      }
      if (!t.calm && ++t.frees_alone > kAlone && (is_kept || slot.has_brief_errand())) run_errand(t);
    }
    [[gnu::noinline]] void set_out(Thread& t, std::byte* at, std::uint64_t bits, unsigned c) noexcept {
      t.calm = nullptr;
      depart(*t.slot, {at, bits, c});
    }
    [[gnu::noinline]] void run_errand(Thread& t) noexcept {
      step(*t.slot, true);
      calm_down(t);
    }
    /// One word sets out. If there is no room, who waits to be told of a span is, and the word that set out first is put home.
    void depart(Slot& slot, const WaitFreeWord& leaves) noexcept {
      if (slot.departures.is_full()) slot.tidings.tell(), put_home(&slot, slot.departures.take());
      slot.departures.push(leaves);
    }
    /// One errand: another slot is told of a span, with a chore when it is the chores' turn; or a word asks for what it will touch,
    /// or is put home; or a chore.
    [[gnu::noinline]] void step(Slot& slot, bool is_free = false) noexcept {
      const bool is_chores_turn = !is_free && ++slot.errands % kChoreEvery == 0 && slot.has_chores();
      if (slot.tidings && (slot.tidings.tell(), !is_chores_turn)) return;
      WaitFreeDepartures& way = slot.departures;
      if (way.is_empty() || is_chores_turn) return chore(slot, is_free);
      if (way.is_asked) return put_home(&slot, way.take());
      const WaitFreeDeparture next = departure_of(way.first());
      next.span->bin.ask_for(next.number * 64);
      __builtin_prefetch(&next.span->opened);
      way.is_asked = true;
    }
    WaitFreeDeparture departure_of(const WaitFreeWord& word) noexcept {
      std::byte* const base = Geometry::base_of(word.size_class, word.at);
      const unsigned w = Geometry::index_of(word.size_class, static_cast<std::size_t>(word.at - base)) / 64;
      return {record_of(base), base, w};
    }
    /// A step of a look that is under way, or, every other time at least, of a restock. A free adopts and gives nothing.
    [[gnu::noinline]] void chore(Slot& slot, bool is_free) noexcept {
      const bool looks = is_free || !slot.looks_next || !slot.has_restock();
      if (!is_free) slot.looks_next = looks;  // frees share no turn with mallocs
      if (looks && slot.can_look_on(is_free)) {
        if (WaitFreeSpan* const s = slot.look_on()) retire(slot, s);
      } else if (slot.adopting != kNoClass) {
        if (!is_free) adopt_spare(slot);
      } else if (const unsigned c = slot.restock()) {
        if (const WaitFreeSpan* const s = slot.ask_to_adopt(c)) index().ask_for_class(index().number_of(s->base));
      }
    }
    /// One span ahead of need, and only of those that are kept anyway: no malloc waits for its adoption.
    void adopt_spare(Slot& slot) noexcept {
      unsigned c = kNoClass;
      if (WaitFreeSpan* const s = slot.take_to_adopt(c)) adopt(slot, s, s->base, c), slot.begin_restock(c);
    }
    [[gnu::noinline]] void send_home(Slot* mine, unsigned c, std::byte* p) noexcept {
      const unsigned i = Geometry::number_in_word(c, p);
      if (i == Geometry::kNoBlock) [[unlikely]] return accuse(Fault::invalid_free, c, p);
      put_home(mine, {p - i * Classes::size_of(c), std::uint64_t{1} << i, c});
    }
    /// One atomic addition; and when the span wakes up or is complete a hint, unless it is of `mine`, a slot in our hands, or null.
    [[gnu::noinline]] void put_home(Slot* mine, const WaitFreeWord& word) noexcept {
      const unsigned c = word.size_class;
      const WaitFreeDeparture due = departure_of(word);
      const auto block = [&](std::uint64_t bits) {
        return Block(word.at + static_cast<unsigned>(std::countr_zero(bits)) * Classes::size_of(c), Classes::size_of(c), c);
      };
      MORTISE_CHECK(due.number < due.span->opened.load(Order::relaxed), Fault::invalid_free, block(word.bits));
      const std::uint64_t twice = Slot::put_home(due.span, due.base, due.number, word.bits, c, slot_of(), mine);
      MORTISE_CHECK(!twice, Fault::double_free, block(twice));
    }

    /// A block of class `c` for the holder of `slot`, which has none freed before. Null without memory.
    [[gnu::noinline]] std::byte* refilled(Thread& t, Slot& slot, unsigned c) noexcept {
      auto& bin = slot.bins[c];
      slot.tidings.tell();
      if (!bin.limit) [[unlikely]]
        if (const auto others = slot.begin(c); others.bits) depart(slot, others);
      if (bin.word.load(Order::relaxed) || Slot::take_back(bin)) return slot.pop(c);
      slot.wanted.drop(c);  // only here: a word at hand leaves the look that it begins to the restock
      if (slot.begin_look()) look(slot, kLooks);
      if (Slot::refill(bin, bin, c)) return slot.pop(c);
      const unsigned kind = Geometry::kind(c);
      std::byte* base = take_span(slot, kind);
      if (!base && visit_others(t, bin, kind, c, base)) return slot.pop(c);
      if (!base && !(base = grown_span(t, slot, kind))) return nullptr;
      adopt(slot, record_of(base), base, c);
      return Slot::refill(bin, bin, c) ? slot.pop(c) : nullptr;
    }
    std::byte* take_span(Slot& slot, unsigned kind) noexcept {
      const WaitFreeSpan* const s = slot.take_spare(kind);
      return s ? s->base : this->below.take_span(kind);
    }
    void adopt(Slot& slot, WaitFreeSpan* s, std::byte* base, unsigned c) noexcept {
      index().change_class(index().number_of(base), static_cast<std::uint32_t>(Geometry::span_bytes(c) / Index::kGranule), c);
      count_rest(s, c);
      slot.adopt(s, base, c);
    }
    /// A limit does not count what lies behind the last block of class `c`: from now on, of this span.
    void count_rest(WaitFreeSpan* s, unsigned c) noexcept {
      const std::size_t before = Geometry::rest_bytes(s->rest_of), after = Geometry::rest_bytes(c);
      s->rest_of = static_cast<std::uint8_t>(c);
      if constexpr (Charges<Below>) {
        if (before > after) this->below.charge(before - after, true);
        if (before < after) this->below.uncharge(after - before);
      }
    }
    /// Growth: first what is known to have been freed is given a longer look; when memory runs out, all that is free anywhere.
    MORTISE_COLD std::byte* grown_span(Thread& t, Slot& slot, unsigned kind) noexcept {
      look(slot, kGrowLooks);
      if (std::byte* const base = take_span(slot, kind)) return base;
      if (std::byte* const base = this->below.grow_span(t.below, kind)) return base;
      trim(t);
      if (std::byte* const base = this->below.take_span(kind)) return base;
      return this->below.grow_span(t.below, kind);
    }
    MORTISE_COLD Block allocate_large(Thread& t, Request r) noexcept {
      if (!Index::reaches(r)) return {};
      if (t.slot) t.slot->tidings.tell(), look(*t.slot, kGrowLooks);
      const Block b = this->below.allocate(t.below, r);
      return b ? b : (trim(t), this->below.allocate(t.below, r));
    }
    /// Slots without a thread may have a word of the class, or a span that has become empty.
    bool visit_others(Thread& t, typename Slot::Bin& bin, unsigned kind, unsigned c, std::byte*& base) noexcept {
      const unsigned used = slots_.used();
      for (unsigned n = 1; n <= kVisits && n < used; ++n) {
        t.visited = t.visited + 1 < used ? t.visited + 1 : 1;
        Slot* const other = slots_.visit(t.visited);
        if (!other) continue;
        look(*other, kVisitLooks);
        const bool got = Slot::refill(bin, other->bins[c], c);
        if (const WaitFreeSpan* const s = got ? nullptr : other->take_spare(kind)) base = s->base;
        slots_.leave(*other);
        if (got || base) return got;
      }
      return false;
    }
    void look(Slot& slot, unsigned most) noexcept {
      for (bool more = true; more && most; --most)
        if (WaitFreeSpan* const s = slot.look(more)) retire(slot, s);
    }
    void retire(Slot& slot, WaitFreeSpan* s) noexcept {
      const unsigned c = s->rest_of;
      if (!slot.keep_spare(Geometry::kind(c), s)) give_span(slot, s, c);
    }
    /// To everybody. `c`: a class of its kind.
    void give_span(Slot& slot, WaitFreeSpan* s, unsigned c) noexcept {
      count_rest(s, kNoClass);
      if (!this->below.give_span(Geometry::kind(c), s->base)) adopt(slot, s, s->base, c);  // the reserve is full: it stays, unused
    }

    /// What a slot's holder does when it has time: blocks go home, all hints are looked at, empty spans leave.
    void empty(Slot& slot) noexcept {
      for (unsigned c = 1; c <= Classes::kCount; ++c) {
        auto& bin = slot.bins[c];
        if (const std::uint64_t word = bin.word.load(Order::relaxed)) {
          bin.word.store(0, Order::relaxed);
          put_home(&slot, {bin.base, word, c});
        }
        if (const auto out = Slot::take_out(bin, c); out.bits) put_home(&slot, out);
        while (bin.count.load(Order::relaxed)) send_home(&slot, c, slot.pop(c));
        Slot::forget(bin);
      }
      while (!slot.departures.is_empty()) put_home(&slot, slot.departures.take());
      slot.tidings.tell();
      for (unsigned c = 1; c <= Classes::kCount; ++c) slot.close(c, slot_of());
      slot.stop_restocking();  // what it would bring is not for the next thread
      look(slot, ~0u);
      for (unsigned kind = 0; kind < kSpanKinds; ++kind)
        while (WaitFreeSpan* const s = slot.take_spare(kind)) give_span(slot, s, s->rest_of);
    }

    Slot* claim(unsigned first, unsigned end = kThreads) noexcept {
      return slots_.claim(first, end, [this](std::size_t bytes) { return this->below.meta(bytes); });
    }
    void tidy(unsigned i) noexcept {
      if (Slot* const s = slots_.visit(i)) empty(*s), slots_.leave(*s);
    }

    WaitFreeSlots<Slot, kThreads> slots_;
    FutexLock guests_;
  };
};

}  // namespace mortise
