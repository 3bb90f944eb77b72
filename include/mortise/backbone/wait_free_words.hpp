// What one thread of wfslab has at hand of one class, and where the next word of it comes from: its spans.
//
//   ┌ slots: blocks just freed, last in first out ┐ hit of malloc and free
//   │ word:  up to 64 neighbours of one span      │ hit of malloc
//   │ current: the span that words come from      │ refill: one exchange, one word
//   └ list:  spans with free blocks               ┘
//   └ out:   neighbours that go home together     ┘ free, with no room in `slots`
//
// Its thread's, but for the bins of its spans. Progress: wait-free, O(1). Placement: in WaitFreeSlot.
#pragma once

#include <bit>

#include "mortise/backbone/wait_free_span.hpp"
#include "mortise/data/list.hpp"

namespace mortise {

template <SizeMap Classes> struct WaitFreeWords {
  using Span = WaitFreeSpan;
  using Geometry = WaitFreeGeometry<Classes>;
  static constexpr unsigned kSlotsMax = 23;  ///< freed blocks kept of one class, at most
  static constexpr unsigned kStaleMax = 4;   ///< empty words looked at in one refill

  /// `count`, `word` and `out` are read by whoever asks what the heap holds, hence atomic; nobody waits for them.
  struct alignas(64) Bin {
    Atomic<std::uint32_t> count;
    std::uint32_t limit = 0;        ///< freed blocks that are kept; 0 until the thread takes one itself
    Atomic<std::uint64_t> word;     ///< free blocks from `base` on
    std::byte* base = nullptr;
    Atomic<std::uint64_t> out;      ///< freed blocks from `out_at` on, which is the start of a word
    std::byte* out_at = nullptr;
    Span* current = nullptr;
    std::uint64_t marks = 0;        ///< words of `current` that may hold something, taken from its bin
    List<Span> list;                ///< the second line begins within
    std::byte* slots[kSlotsMax];

    /// A word, or what would become one.
    bool has_word() const noexcept { return word.load(Order::relaxed) || out.load(Order::relaxed); }
    /// A span to take words from: one that may turn out to have none is one.
    bool has_span() const noexcept { return current || !list.is_empty(); }
  };
  static_assert(sizeof(Bin) == 256);

  /// Some free blocks of `from`'s spans of class `c`, as a word for `to`. False when it has none at hand. O(1).
  static bool refill(Bin& to, Bin& from, unsigned c, unsigned most = kStaleMax) noexcept {
    for (unsigned tries = 0; tries < most; ++tries) {
      Span* s = from.current;
      if (!s) {
        if (!(s = from.list.first())) return false;
        from.list.remove(s);
        s->is_listed = false;
        from.current = s;
      }
      if (!from.marks && s->bin.is_marked()) from.marks = s->bin.take_marks();
      if (from.marks) {
        const auto w = static_cast<unsigned>(std::countr_zero(from.marks));
        from.marks &= from.marks - 1;
        // A mark may be stale, of a thread that was late with it: even for a word that is not open in this use of the span.
        if (w >= s->opened.load(Order::relaxed)) continue;
        if (const std::uint64_t bits = s->bin.take(w, Geometry::capacity(c))) return hand_out(to, s, w, c, bits);
      } else if (const unsigned w = s->opened.load(Order::relaxed); w < Geometry::words(c)) {
        s->bin.open(w);
        s->opened.store(static_cast<std::uint16_t>(w + 1), Order::relaxed);
        return hand_out(to, s, w, c, s->bin.all_of(w, Geometry::capacity(c)));
      } else {
        from.current = nullptr;  // its bin had no marks: the next block that is put into it brings a hint
      }
    }
    return false;
  }

  /// Asks for the lines of a span that its owner touches, but for words beyond the first ones.
  static void ask_for(const Span* s) noexcept {
    s->bin.ask_for(0);
    prefetch_to_write(&s->opened);
  }
  /// Asks for what the next refill from `b` touches.
  static void ask_ahead(const Bin& b) noexcept {
    if (b.current) {
      b.current->bin.ask_for(b.marks ? static_cast<unsigned>(std::countr_zero(b.marks)) * 64 : 0);
      prefetch_to_write(&b.current->opened);
    }
    if (b.list.first()) ask_for(b.list.first());
  }

 private:
  static bool hand_out(Bin& to, const Span* s, unsigned w, unsigned c, std::uint64_t bits) noexcept {
    to.base = s->base + std::size_t{w} * 64 * Classes::size_of(c);
    to.word.store(bits, Order::relaxed);
    return true;
  }
};

}  // namespace mortise
