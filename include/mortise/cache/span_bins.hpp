// Lists of free spans by length: one for each count of granules up to kExact, then four between each power of two and the next.
//
// Source: segregated free lists [Wilson95]. Not synchronised: the layer that owns them holds its lock.
#pragma once

#include "mortise/core/core.hpp"
#include "mortise/data/list.hpp"
#include "mortise/shape/page_index.hpp"

namespace mortise {

/// All zero is valid and empty. Every operation is O(1) but for `find`, which is O(looks).
struct SpanBins {
  static constexpr unsigned kExact = 32, kBins = 128;
  List<Span> list[kBins];
  std::uint64_t filled[kBins / 64] = {};  ///< a bit for each list that is not empty

  static unsigned bin_of(std::uint32_t granules) noexcept {
    if (granules <= kExact) return granules - 1;
    const unsigned top = log2_floor(granules);
    const unsigned bin = kExact + ((top - 5) << 2) + ((granules >> (top - 2)) & 3);
    return bin < kBins ? bin : kBins - 1;
  }

  void put(Span* s) noexcept {
    const unsigned bin = bin_of(s->granules);
    list[bin].push(s);
    filled[bin / 64] |= std::uint64_t{1} << (bin % 64);
  }
  void remove(Span* s) noexcept {
    const unsigned bin = bin_of(s->granules);
    list[bin].remove(s);
    if (list[bin].is_empty()) filled[bin / 64] &= ~(std::uint64_t{1} << (bin % 64));
  }

  /// The shortest span of at least `need` granules, of equal ones the lowest, left in its list; null when there is none. In a bin
  /// of mixed lengths it looks at the first `looks_max`; a span of the next bin fits for sure.
  Span* find(std::uint32_t need, unsigned looks_max) noexcept {
    for (unsigned bin = next_filled(bin_of(need)); bin < kBins; bin = next_filled(bin + 1)) {
      Span* best = nullptr;
      unsigned looks = 0;
      for (Span* s = list[bin].first(); s && looks < looks_max; s = s->next, ++looks)
        if (s->granules >= need && (!best || is_better(*s, *best))) best = s;
      if (best) return best;
    }
    return nullptr;
  }
  /// A span that has been free since before `deadline_ms`, left in its list; null when there is none.
  Span* free_since(std::uint64_t deadline_ms) noexcept {
    for (unsigned bin = next_filled(0); bin < kBins; bin = next_filled(bin + 1)) {
      for (Span* s = list[bin].last(); s; s = s->prev)
        if (s->since_ms <= deadline_ms) return s;
    }
    return nullptr;
  }
  /// Walks every span and reports heap_inconsistent when lists and the descriptors at `spans` disagree; their granules in all.
  std::size_t audit(const Span* spans, SpanState state) noexcept {
    std::size_t granules = 0;
    for (unsigned bin = 0; bin < kBins; ++bin) {
      MORTISE_AUDIT(list[bin].is_empty() == !(filled[bin / 64] >> (bin % 64) & 1));
      for (const Span* s = list[bin].first(); s; s = s->next) {
        const Span& last = spans[s->head + s->granules - 1];
        MORTISE_AUDIT(s->state == state && bin_of(s->granules) == bin && s == &spans[s->head]);
        MORTISE_AUDIT(last.head == s->head && last.state == state);
        granules += s->granules;
      }
    }
    return granules;
  }
  /// The first bin from `from` on that is not empty; kBins when there is none.
  unsigned next_filled(unsigned from) const noexcept {
    for (unsigned w = from / 64; w < kBins / 64; ++w) {
      std::uint64_t word = filled[w];
      if (w == from / 64) word &= ~std::uint64_t{0} << (from % 64);
      if (word) return w * 64 + static_cast<unsigned>(std::countr_zero(word));
    }
    return kBins;
  }

 private:
  static bool is_better(const Span& a, const Span& b) noexcept {
    return a.granules < b.granules || (a.granules == b.granules && a.head < b.head);
  }
};

}  // namespace mortise
