// Of a large block's last granule the pages that nobody asked for: the tail.
//
//   ┌ granule ┬ granule ┬ granule ┐
//   │ block                 ┊ tail│     the block ends with a page, its span with a granule
//   └─────────┴─────────┴─────────┘
//
// A tail is address space and no memory as long as nobody has touched it: where the span was clean it does not count against a limit.
// Of a span that was dirty it may be resident, and counts. Under the lock of whoever owns the spans; O(1).
#pragma once

#include "mortise/core/core.hpp"
#include "mortise/data/preset.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/shape/page_index.hpp"

namespace mortise {

template <Indexed Below> class SpanTails {
  using Index = IndexOf<Below>;

 public:
  /// Until it is called, blocks are whole granules.
  void start(const os::Facts& facts) noexcept {
    if (facts.page_bytes < page_bytes_) page_bytes_ = facts.page_bytes;
  }

  /// The tail of a span that has none: what lies behind the page of byte `bytes`.
  void cut(Below& below, Span* s, std::size_t bytes, bool was_clean) noexcept {
    const std::size_t tail = behind(s, bytes);
    set(s, tail);
    s->is_tail_counted = !was_clean;
    bytes_[!was_clean] += tail;
    if constexpr (Charges<Below>)
      if (was_clean && tail) below.uncharge(tail);
  }
  /// The block reaches to byte `bytes` of its span, which is more than before; false when a limit forbids it.
  bool shorten(Below& below, Span* s, std::size_t bytes) noexcept {
    const std::size_t tail = behind(s, bytes), taken = of(s) - tail;
    if constexpr (Charges<Below>)
      if (taken && !s->is_tail_counted && !below.charge(taken, false)) return false;
    set(s, tail);
    bytes_[s->is_tail_counted] -= taken;
    return true;
  }
  /// The span is whole again, to be given back.
  void join(Below& below, Span* s) noexcept {
    const std::size_t tail = of(s);
    if constexpr (Charges<Below>)
      if (tail && !s->is_tail_counted) below.charge(tail, true);
    set(s, 0);
    bytes_[s->is_tail_counted] -= tail;
  }

  /// Sums of all tails, for whoever tells.
  std::size_t counted_bytes() const noexcept { return bytes_[true]; }
  std::size_t untouched_bytes() const noexcept { return bytes_[false]; }

 private:
  static std::size_t of(const Span* s) noexcept { return Index::bytes_of(s) - Index::used_bytes_of(s); }
  std::size_t behind(const Span* s, std::size_t bytes) const noexcept {
    return Index::bytes_of(s) - round_up(bytes ? bytes : 1, page_bytes_);
  }
  static void set(Span* s, std::size_t tail) noexcept { s->tail_pages = tail / 4_KiB & 0x7fff; }

  Preset<Index::kGranule> page_bytes_;
  std::size_t bytes_[2] = {};
};

}  // namespace mortise
