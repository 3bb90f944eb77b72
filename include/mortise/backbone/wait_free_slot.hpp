// What one thread of wfslab has at hand: its own free blocks, its spans, and the bin in which others tell it of them.
//
//   bins[c]   what it has of class c: freed blocks, a word, spans with free blocks, neighbours that go home together
//   wanted    classes that have used up a word: the next one is fetched ahead of need, and a spare adopted for it if there is no span
//   spare     spans that nothing uses, for whichever class needs one next
//   hints     a bin of spans: others have put blocks back into this one
//
// A slot outlives its thread: the next thread takes it over as it is, spans, pending frees and all. Between the two, and only
// then, any thread may visit it. Spans never change their slot while a block of theirs is out, so that whoever frees a block
// finds the owner without asking.
//
// Each step is O(1): no list is walked, and hints are looked at one span at a time.
// Progress: wait-free; everything but `hints` and the spans' bins belongs to the slot's holder.
#pragma once

#include <bit>

#include "mortise/backbone/wait_free_departures.hpp"
#include "mortise/backbone/wait_free_hints.hpp"
#include "mortise/backbone/wait_free_wants.hpp"
#include "mortise/backbone/wait_free_words.hpp"

namespace mortise {

template <SizeMap Classes> struct alignas(64) WaitFreeSlot : WaitFreeWords<Classes> {
  using Words = WaitFreeWords<Classes>;
  using typename Words::Bin, typename Words::Span, typename Words::Geometry;
  using Words::ask_ahead, Words::ask_for, Words::kSlotsMax, Words::refill;
  static constexpr std::size_t kBytesPerClass = 256_KiB;    ///< of freed blocks kept of a large class
  static constexpr unsigned kSpares[kSpanKinds] = {12, 8};  ///< unused spans kept, at most

  using Word = WaitFreeWord;
  static constexpr unsigned kBuckets = 1024;
  static_assert(Classes::kCount < 256, "a class is a byte here");

  using Hints = WaitFreeHints<kBuckets>;
  Hints hints;  ///< buckets with a span that has been put into; anybody's
  // One line with all that tells whether there are errands, but for the departures.
  alignas(64) WaitFreeTidings<Hints> tidings;  ///< who will be told of a span
  Span* pending = nullptr;  ///< the next span that is looked at
  Span* leaving = nullptr;  ///< was complete when it was looked at
  WaitFreeWants<Classes::kCount> wanted;  ///< the classes that have used up a word
  bool looks_next = false;  ///< whose turn it is, a look's or a restock's
  bool looking = false;  ///< until no hint is found
  bool is_late = false;  ///< it was `leaving` already when another look was to begin
  std::uint8_t restocking = kNoClass;  ///< the class whose next word is on its way
  std::uint8_t adopting = kNoClass;  ///< the class for which a spare has been asked for
  std::uint8_t restock_steps = 0;  ///< how many more before it is taken
  std::uint8_t errands = 0;  ///< done while words were on their way
  alignas(64) WaitFreeDepartures departures;
  unsigned number = 0;
  Atomic<std::uint32_t> spares[kSpanKinds];
  Span* spare[kSpanKinds] = {};
  std::uint8_t out_room[Classes::kCount + 1] = {};  ///< how many blocks may still join `out`
  Span* buckets[kBuckets] = {};
  Bin bins[Classes::kCount + 1];

  static unsigned bucket_of(const std::byte* base) noexcept { return static_cast<unsigned>(address_of(base) / 64_KiB % kBuckets); }

  /// How many freed blocks of class `c` are kept.
  static constexpr std::uint32_t kept_of(unsigned c) noexcept {
    const std::size_t fit = kBytesPerClass / Classes::size_of(c);
    return static_cast<std::uint32_t>(fit < 2 ? 2 : fit > kSlotsMax ? kSlotsMax : fit);
  }
  /// Touches every page of the slot, so that no call meets its first use.
  void open(unsigned n) noexcept {
    number = n;
    for (unsigned c = 1; c <= Classes::kCount; ++c) forget(bins[c]);
  }
  /// Its thread has no block of the class. What it frees now others have taken, who may still use the neighbours: it is not kept.
  static void forget(Bin& b) noexcept {
    b.limit = 0;
    b.base = nullptr;
  }
  /// Its thread is about to take the first one. What waits, others' blocks, is to go home.
  Word begin(unsigned c) noexcept {
    bins[c].limit = kept_of(c);
    return take_out(bins[c], c);
  }

  /// A hit: a block of class `c`, or null. When it was a word's last `calm` ends, if given: there is an errand.
  MORTISE_HOT std::byte* pop(unsigned c, WaitFreeSlot** calm = nullptr) noexcept {
    Bin& b = *at_once(&bins[c]);
    if (const std::uint32_t n = b.count.load(Order::relaxed)) [[likely]] {
      b.count.store(n - 1, Order::relaxed);
      return b.slots[n - 1];
    }
    return from_word(b, c, calm);
  }
  MORTISE_HOT std::byte* from_word(Bin& b, unsigned c, WaitFreeSlot** calm) noexcept {
    const std::uint64_t word = b.word.load(Order::relaxed), rest = word & (word - 1);
    if (!word) [[unlikely]] return nullptr;
    b.word.store(rest, Order::relaxed);
    if (!rest) [[unlikely]] {
      wanted.want(static_cast<unsigned>(&b - bins));  // not `c`, of which hits would keep a copy
      if (calm) *calm = nullptr;
    }
    return b.base + static_cast<unsigned>(std::countr_zero(word)) * Classes::size_of(c);
  }
  MORTISE_HOT bool push(unsigned c, std::byte* p) noexcept {
    Bin& b = *at_once(&bins[c]);
    const std::uint32_t n = b.count.load(Order::relaxed);
    if (n >= b.limit) [[unlikely]] return false;
    b.slots[n] = p;
    b.count.store(n + 1, Order::relaxed);
    return true;
  }

  /// Block `i` of the word at `at`, for which `push` had no room: back into the class's word if it came from there; else it waits for its
  /// neighbours, to go home with them.
  /// False when it waits already. `leaves`, what waited before, has to be put home now if it has bits.
  MORTISE_HOT bool send(unsigned c, std::byte* at, unsigned i, Word& leaves) noexcept {
    Bin& b = bins[c];
    const std::uint64_t bit = std::uint64_t{1} << i, bits = b.out.load(Order::relaxed);
    if (b.base == at) {
      const std::uint64_t word = b.word.load(Order::relaxed);
      b.word.store(word | bit, Order::relaxed);
      return !(word & bit);
    }
    if (b.out_at == at && out_room[c]) [[likely]] {
      b.out.store(bits | bit, Order::relaxed);
      --out_room[c];
      return !(bits & bit);
    }
    leaves = {b.out_at, bits, c};
    b.out.store(bit, Order::relaxed);
    b.out_at = at;
    out_room[c] = static_cast<std::uint8_t>(Geometry::sent_together(c) - 1);
    return true;
  }
  /// What waits for its neighbours is the class's word again, which is empty. False when nothing waits.
  static bool take_back(Bin& b) noexcept {
    if (!b.out.load(Order::relaxed)) return false;
    const Word back = take_out(b);
    b.base = back.at;
    b.word.store(back.bits, Order::relaxed);
    return true;
  }
  static Word take_out(Bin& b, unsigned c = kNoClass) noexcept {
    const Word out = {b.out_at, b.out.load(Order::relaxed), c};
    b.out.store(0, Order::relaxed);
    b.out_at = nullptr;
    return out;
  }

  /// One step towards the next word of a class that has used up its own, so that the call that needs one finds it: what the step touches
  /// the one before it has asked for. The class, when none of its spans has a block; otherwise kNoClass. O(1).
  unsigned restock() noexcept {
    const unsigned c = restocking;
    if (c == kNoClass) {
      const unsigned next = wanted.take();
      if (next == kNoClass) return kNoClass;
      begin_look();
      return bins[next].has_word() ? kNoClass : begin_restock(next);
    }
    Bin& b = bins[c];
    if (restock_steps && --restock_steps) {
      if (b.list.first()) ask_for_neighbours(b.list.first());
      return kNoClass;
    }
    restocking = kNoClass;
    if (b.word.load(Order::relaxed) || b.out.load(Order::relaxed) || refill(b, b, c, 1)) return kNoClass;
    return begin_restock(c);  // the next of its spans
  }
  /// Class `c` is to get its next word, for whose lines it asks. The class, when it has no span to take one from; otherwise kNoClass.
  unsigned begin_restock(unsigned c) noexcept {
    const Bin& b = bins[c];
    if (!b.has_span()) return c;
    restocking = static_cast<std::uint8_t>(c);
    ask_ahead(b);
    restock_steps = b.current ? 1 : 2;
    return kNoClass;
  }
  /// What class `c` will adopt a step later, a span that is kept: its lines are asked for. Null when none is.
  const Span* ask_to_adopt(unsigned c) noexcept {
    const Span* const s = spare[Geometry::kind(c)];
    if (!s) return nullptr;
    adopting = static_cast<std::uint8_t>(c);
    ask_for(s);
    prefetch_to_write(&buckets[bucket_of(s->base)]);
    return s;
  }
  /// The span that is adopted ahead of need, by a class that still has none: then it is the caller's. Null when there is none.
  Span* take_to_adopt(unsigned& c) noexcept {
    c = adopting;
    adopting = kNoClass;
    return bins[c].has_word() || bins[c].has_span() ? nullptr : take_spare(Geometry::kind(c));
  }
  void stop_restocking() noexcept {
    wanted.clear();
    restocking = adopting = kNoClass;
  }

  /// Whether a look is under way. If not it begins, by asking for the line of `hints`: were it looked at more often, whoever tells of a
  /// span would have to wait for it.
  bool begin_look() noexcept {
    if (looking) return is_late = leaving, true;
    hints.ask_for(0);
    looking = true;
    return false;
  }
  /// Whether a look can take a step as a chore: a span that leaves has room among the spares, or had none for long; then malloc does it.
  bool can_look_on(bool is_free = false) const noexcept {
    return looking && (!leaving || (is_late && !is_free) || has_room_for(leaving));
  }
  bool has_restock() const noexcept { return restocking != kNoClass || adopting != kNoClass || !wanted.is_empty(); }
  bool has_chores() const noexcept { return can_look_on() || has_restock(); }
  bool has_brief_errand() const noexcept { return tidings || !(departures.is_asked || departures.is_empty()); }
  bool has_errands() const noexcept { return tidings || !departures.is_empty() || has_chores(); }

  /// Makes a span that nobody uses this slot's, for class `c`.
  void adopt(Span* s, std::byte* base, unsigned c) noexcept {
    s->opened.store(0, Order::relaxed);
    s->size_class.store(static_cast<std::uint8_t>(c), Order::relaxed);
    s->owner.store(static_cast<std::uint16_t>(number), Order::relaxed);
    s->bin.restart();
    s->base = base;
    s->is_listed = true;
    Span*& bucket = buckets[bucket_of(base)];
    s->bucket_prev = nullptr;
    s->bucket_next = bucket;
    if (bucket) bucket->bucket_prev = s;
    bucket = s;
    bins[c].list.push(s);
  }

  /// Takes a complete span out of the slot: nobody uses it any more.
  void disown(Span* s) noexcept {
    const unsigned c = s->size_class.load(Order::relaxed);
    if (s->is_listed) bins[c].list.remove(s);
    s->is_listed = false;
    (s->bucket_prev ? s->bucket_prev->bucket_next : buckets[bucket_of(s->base)]) = s->bucket_next;
    if (s->bucket_next) s->bucket_next->bucket_prev = s->bucket_prev;
    s->size_class.store(kNoClass, Order::relaxed);
  }
  /// Keeps a span that was disowned, for any class of its kind. False when there is no room.
  bool keep_spare(unsigned kind, Span* s) noexcept {
    const std::uint32_t n = spares[kind].load(Order::relaxed);
    if (n == kSpares[kind]) return false;
    s->next = spare[kind];
    spare[kind] = s;
    spares[kind].store(n + 1, Order::relaxed);
    return true;
  }
  bool has_room_for(const Span* s) const noexcept {
    const unsigned kind = Geometry::kind(s->size_class.load(Order::relaxed));
    return spares[kind].load(Order::relaxed) < kSpares[kind];
  }
  /// One of them, to be adopted or given away; null when there is none.
  Span* take_spare(unsigned kind) noexcept {
    Span* const s = spare[kind];
    if (!s) return nullptr;
    spare[kind] = s->next;
    spares[kind].store(spares[kind].load(Order::relaxed) - 1, Order::relaxed);
    if (s->next) ask_for(s->next);
    return s;
  }

  /// Puts blocks of word `w` of span `s`, which starts at `base`, back where they came from; returns which were there already.
  /// Any thread. `slot_of(n)` is slot number n; `mine` a slot that the caller holds, or null: its own spans need no hint to be listed.
  /// At most seven shared accesses.
  template <class SlotOf> MORTISE_HOT static std::uint64_t put_home(Span* s, const std::byte* base, unsigned w, std::uint64_t bits,
                                                            unsigned c, SlotOf slot_of, WaitFreeSlot* mine = nullptr) noexcept {
    const auto put = s->bin.put(w, bits, Geometry::capacity(c));
    if (put.woke || put.completed) [[unlikely]] {
      const unsigned owner = s->owner.load(Order::relaxed);
      if (mine && owner == mine->number && !put.completed) mine->list(s, c);
      else if (mine) mine->tidings.tell_later(slot_of(owner).hints, bucket_of(base));
      else slot_of(owner).hints.announce(bucket_of(base));
    }
    return put.was_there;
  }

  /// Stops taking words from the current span of a class: what was never handed out goes into its bin, so that the span counts as
  /// complete when the rest is back. O(words of a span).
  template <class SlotOf> void close(unsigned c, SlotOf slot_of) noexcept {
    Bin& b = bins[c];
    Span* const s = b.current;
    if (!s) return;
    b.current = nullptr;
    for (; b.marks; b.marks &= b.marks - 1) {  // taken, but not looked at
      const auto w = static_cast<unsigned>(std::countr_zero(b.marks));
      if (w >= s->opened.load(Order::relaxed)) continue;
      if (const std::uint64_t bits = s->bin.take(w, Geometry::capacity(c))) put_home(s, s->base, w, bits, c, slot_of);
    }
    for (unsigned w = s->opened.load(Order::relaxed); w < Geometry::words(c); ++w) {
      s->bin.open(w);
      s->opened.store(static_cast<std::uint16_t>(w + 1), Order::relaxed);
      put_home(s, s->base, w, s->bin.all_of(w, Geometry::capacity(c)), c, slot_of);
    }
    if (!s->is_listed && s->bin.is_marked()) {
      b.list.push_last(s);
      s->is_listed = true;
    }
  }
  bool is_current(const Span* s) const noexcept { return bins[s->size_class.load(Order::relaxed)].current == s; }

  /// One step of each kind on the way from a hint to its span, which is listed if it has something, and returned if it is complete: taken
  /// out of the slot, nobody uses it any more. `more` becomes false when nothing is on its way. What a step touches the one before it has
  /// asked for, a call ago: no call waits for memory twice. O(1).
  Span* look(bool& more) noexcept {
    if (!looking_on()) {
      more = false;
      return nullptr;
    }
    Span* gone = nullptr;
    if (leaving) gone = take_leaving();
    else if (pending) look_at_pending();
    if (!pending && hints.bucket() != kBuckets) open_hinted();
    if (hints.bucket() == kBuckets) next_hint();
    return gone;
  }
  /// The same, but one step of one kind.
  Span* look_on() noexcept {
    if (!looking_on()) return nullptr;
    if (leaving) {
      Span* const gone = take_leaving();
      looking_on();
      return gone;
    }
    if (pending) look_at_pending();
    else if (hints.bucket() != kBuckets) open_hinted();
    else next_hint();
    looking_on();  // no errand of its own to find that there is no more
    return nullptr;
  }

 private:
  /// Span `s` of this slot has something in its bin.
  void list(Span* s, unsigned c) noexcept {
    if (s->is_listed || bins[c].current == s) return;
    bins[c].list.push_last(s);
    s->is_listed = true;
  }
  bool looking_on() noexcept {
    return looking = leaving || pending || hints.has_more();
  }
  void look_at_pending() noexcept {
    Span* const s = pending;
    pending = s->bucket_next;
    if (is_complete(s)) ask_for_neighbours(leaving = s);
    else if (s->bin.is_marked()) list(s, s->size_class.load(Order::relaxed));
    if (pending) ask_for(pending);
  }
  void open_hinted() noexcept {
    if ((pending = buckets[hints.take_bucket()])) ask_for(pending);
  }
  void next_hint() noexcept {
    hints.go_on();
    if (hints.bucket() != kBuckets) prefetch_to_write(&buckets[hints.bucket()]);
  }

  /// All blocks of span `s` are in its bin, and stay there: words come from another.
  bool is_complete(const Span* s) const noexcept {
    return !is_current(s) && s->bin.is_complete(Geometry::words(s->size_class.load(Order::relaxed)));
  }
  /// The span that was complete when it was looked at, if it still is: it leaves.
  Span* take_leaving() noexcept {
    Span* const s = leaving;
    leaving = nullptr;
    is_late = false;
    if (!is_complete(s)) return nullptr;
    if (pending == s) pending = s->bucket_next;
    disown(s);
    return s;
  }
  static void ask_for_neighbours(const Span* s) noexcept {
    if (s->next) prefetch_to_write(&s->next->prev);
    if (s->prev) prefetch_to_write(&s->prev->next);
    if (s->bucket_next) prefetch_to_write(&s->bucket_next->bucket_prev);
    if (s->bucket_prev) prefetch_to_write(&s->bucket_prev->bucket_next);
  }
};

}  // namespace mortise
