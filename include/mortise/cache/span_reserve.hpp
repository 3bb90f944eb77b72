// A reserve of free spans that threads take from and give to without waiting: what makes refills wait-free.
//
//   take_span ─► a number of the pool `filled` ─► cell[number] is the span ─► the number goes to the pool `empty`
//   give_span ─► a number of the pool `empty`, its place's if it is there ─► the span into that cell ─► the number goes to `filled`
//   grow_span ─► nothing there: the layer below is asked, which may wait and call the system; counted
//
// Two shelves, for the two kinds of spans. Cells are in the order of addresses, as far as their places are free, and low numbers are taken
// first: so what is in use lies close together. What is given stays here, whatever its size, until a call that grows anyway, or trim,
// hands what is beyond the reserve below, where it merges. So neither malloc nor free below the reserve meets a lock or the
// system.
//
// Large blocks pass through to the layer below: they are grown by definition.
// Bound: take and give are at most 2 x (words of a pool + its tries) steps, and five. A thread stopped within keeps one span.
// Progress: take_span and give_span wait-free; allocate, release and grow_span as below.
// Placement: directly above SpanCache; below WaitFreeSlab. Source: the shared pools of [BlellochWei20], with single claims.
#pragma once

#include "mortise/backbone/wait_free_span.hpp"
#include "mortise/core/core.hpp"
#include "mortise/os/gather.hpp"
#include "mortise/os/pages.hpp"
#include "mortise/shape/page_index.hpp"
#include "mortise/sync/wait_free_pool.hpp"

namespace mortise {

/// A shelf of spans of one kind. Any thread, wait-free.
template <unsigned kCells> class SpanShelf {
 public:
  /// Once, before first use. O(cells).
  void start() noexcept {
    for (unsigned i = 0; i < kCells; ++i) empty_.put(i);
  }
  std::byte* take() noexcept {
    const unsigned i = filled_.take();
    if (i == filled_.kNone) return nullptr;
    std::byte* const span = cells_[i].get();
    empty_.put(i);
    return span;
  }
  /// `span` is number `place` of so many `places` in the order of addresses, of which low ones are taken first. False when every cell is
  /// taken.
  bool give(std::byte* span, std::size_t place, std::size_t places) noexcept {
    auto i = static_cast<unsigned>(places <= kCells ? place : place * kCells / places);
    if (!empty_.take_this(i)) i = empty_.take();
    if (i == empty_.kNone) return false;
    cells_[i].set(span);
    filled_.put(i);
    return true;
  }
  unsigned count() const noexcept { return filled_.count(); }

 private:
  WaitFreePool<kCells> filled_, empty_;
  Shared<std::byte*> cells_[kCells];
};

/// `kSmallSpans` (64..65536): how many spans of 64 KiB fit.
/// `kLargeSpans` (64..65536): how many spans of 256 KiB fit.
template <unsigned kSmallSpans = 4096, unsigned kLargeSpans = 1024> struct SpanReserve {
  static constexpr const char* kName = "SpanReserve";
  static constexpr const char* kWhat = "free spans that threads take and give without waiting; grows only when exhausted";
  static constexpr const char* kNeeds = "a layer below that gives spans and finds them (SpanCache over PageIndex)";
  template <class Out> static void describe(Out& out) {
    out.layer(kName, kWhat).number("small_spans", kSmallSpans).number("large_spans", kLargeSpans);
  }

  template <GivesSpans Below> requires (facts_of<Below>().spans != Spans::slabs) class Over : public Passthrough<Below> {
   public:
    using typename Passthrough<Below>::Thread;
    using Index = IndexOf<Below>;
    static constexpr Guarantee kSpanGuarantee = Guarantee::wait_free;
    static_assert(Index::kGranule <= kSpanKindBytes[0] && kSpanKindBytes[0] % Index::kGranule == 0, "a span is whole granules");

    bool start(const os::Facts& facts) noexcept {
      if (!start_below(this->below, facts)) return false;
      if (!is_started_) small_.start(), large_.start();
      return is_started_ = true;
    }

    std::byte* take_span(unsigned kind) noexcept { return kind ? large_.take() : small_.take(); }
    bool give_span(unsigned kind, std::byte* span) noexcept {
      Index& index = this->below.page_index();
      const std::size_t granules = kSpanKindBytes[kind] / Index::kGranule;
      const std::size_t place = index.number_of(span) / granules, places = (index.covered() + granules - 1) / granules;
      return kind ? large_.give(span, place, places) : small_.give(span, place, places);
    }

    /// A span from below. Null when that has none, or `on_exhausted` says so.
    MORTISE_COLD std::byte* grow_span(Thread& t, unsigned kind) noexcept {
      if (on_exhausted_.load(Order::relaxed) == OnExhausted::fail) return nullptr;
      grown_.fetch_add(1, Order::relaxed);
      hand_below(t, kHandedAtOnce, 1 - kind);
      return fetch(t, kind);
    }

    /// Large blocks. Before the heap grows for them, spans beyond the reserve go below.
    Block allocate(Thread& t, Request r) noexcept {
      if (on_exhausted_.load(Order::relaxed) == OnExhausted::fail && is_reserved_) return {};
      grown_.fetch_add(1, Order::relaxed);
      for (unsigned kind = 0; kind < kSpanKinds; ++kind) hand_below(t, kHandedAtOnce, kind);
      return this->below.allocate(t, r);
    }

    /// Half of the bytes in each kind of span, or as many as fit. False when that is less, and when pages cannot be brought in or locked.
    /// O(bytes).
    bool reserve(Thread& t, Reserve s) noexcept {
      on_exhausted_.store(s.on_exhausted, Order::relaxed);
      is_reserved_ = true;
      bool is_whole = true;
      for (unsigned kind = 0; kind < kSpanKinds; ++kind) {
        const std::size_t wish = s.bytes / 2 / kSpanKindBytes[kind], most = (kind ? kLargeSpans : kSmallSpans) / 2;
        is_whole = is_whole && wish <= most;
        kept_[kind].store(static_cast<unsigned>(wish < most ? wish : most), Order::relaxed);
        for (unsigned n = count(kind); n < kept_[kind].load(Order::relaxed); ++n) {
          std::byte* const span = fetch(t, kind);
          if (!span) return false;
          const bool ready = (!s.prefault || os::prefault(span, kSpanKindBytes[kind])) &&
                             (!s.lock || os::lock_pages(span, kSpanKindBytes[kind]));
          if (!give_span(kind, span) || !ready) return false;
        }
      }
      return is_whole;
    }
    /// Of spans' records as well.
    void set_huge_pages(HugePages pages) noexcept requires AdvisesHuge<Below> {
      huge_pages_.store(pages, Order::relaxed);
      this->below.set_huge_pages(pages);
    }
    std::size_t trim(Thread& t) noexcept {
      for (unsigned kind = 0; kind < kSpanKinds; ++kind) hand_below(t, kSmallSpans, kind);
      return trim_below(this->below, t);
    }

    void tell(Usage& u) noexcept {
      tell_below(this->below, u);
      for (unsigned kind = 0; kind < kSpanKinds; ++kind) {
        const std::size_t n = count(kind), bytes = n * kSpanKindBytes[kind];
        u.live -= bytes;  // below counts a span as one large block
        u.large -= bytes;
        u.large_count -= n;
        u.dirty += bytes;
      }
      u.grown += grown_.load(Order::relaxed);
    }

   private:
    static constexpr unsigned kHandedAtOnce = 64;
    static constexpr std::uint32_t kGathered = os::kGatheredBytes / Index::kBitmapBytes;  ///< granules whose records share a huge page
    static constexpr std::size_t kGatheredMax = Index::kReachBytes / Index::kGranule / kGathered + 1;

    unsigned count(unsigned kind) const noexcept { return kind ? large_.count() : small_.count(); }

    std::byte* fetch(Thread& t, unsigned kind) noexcept {
      const std::size_t bytes = kSpanKindBytes[kind];
      const Block b = this->below.allocate(t, {.size = bytes, .align = bytes});
      if (!b) return nullptr;
      Index& index = this->below.page_index();
      Span* const s = index.span_of(b.ptr);
      s->state = SpanState::slab;  // a stray free of it is a crime
      index.set_class(s, kNoClass);
      record_of(b.ptr)->size_class.store(kNoClass, Order::relaxed);  // touches the record's page
      granules_.fetch_add(s->granules, Order::relaxed);
      gather_records(s->head);
      return b.ptr;
    }
    /// The records of 256 MiB of heap take 512 pages, and those that a thread needs next are anywhere in them: they are made one huge page
    /// when granule `g` is among them, but not before there are spans of 128 MiB for each such page.
    void gather_records(std::uint32_t g) noexcept {
      Index& index = this->below.page_index();
      const std::uint32_t page = g / kGathered;
      const std::uint64_t bit = std::uint64_t{1} << page % 64;
      Atomic<std::uint64_t>& asked = asked_[page / 64];
      const std::uint32_t gathered = gathered_.load(Order::relaxed);
      if (asked.load(Order::relaxed) & bit || granules_.load(Order::relaxed) / (kGathered / 2) <= gathered) return;
      if (asked.fetch_or(bit, Order::relaxed) & bit) return;  // another thread does
      gathered_.fetch_add(1, Order::relaxed);
      auto* const records = reinterpret_cast<std::byte*>(index.bits_at(page * kGathered));
      if (huge_pages_.load(Order::relaxed) != HugePages::never && address_of(records) % os::kGatheredBytes == 0 &&
          index.back_bits((page + 1) * kGathered))
        os::gather(records);
    }
    WaitFreeSpan* record_of(std::byte* span) noexcept {
      Index& index = this->below.page_index();
      return reinterpret_cast<WaitFreeSpan*>(index.bits_at(index.number_of(span)));
    }
    /// Up to `most` spans of `kind` beyond what is to be kept go below.
    void hand_below(Thread& t, unsigned most, unsigned kind) noexcept {
      const unsigned kept = kept_[kind].load(Order::relaxed), have = count(kind);
      for (unsigned n = have > kept ? have - kept : 0; n && most; --n, --most) {
        std::byte* const span = take_span(kind);
        if (!span) return;
        Index& index = this->below.page_index();
        Span* const s = index.span_of(span);
        index.set_class(s, kNoClass);
        granules_.fetch_sub(s->granules, Order::relaxed);
        index.set_span(s->head, s->granules, SpanState::large);
        this->below.release(t, {span, kSpanKindBytes[kind], kNoClass});
      }
    }

    SpanShelf<kSmallSpans> small_;
    SpanShelf<kLargeSpans> large_;
    Atomic<unsigned> kept_[kSpanKinds];
    Atomic<std::size_t> grown_;
    Atomic<OnExhausted> on_exhausted_;
    Atomic<HugePages> huge_pages_;
    Atomic<std::uint32_t> granules_;  ///< of spans that came from below
    Atomic<std::uint32_t> gathered_;  ///< huge pages that their records were to share
    Atomic<std::uint64_t> asked_[(kGatheredMax + 63) / 64];
    bool is_started_ = false, is_reserved_ = false;
  };
};

}  // namespace mortise
