// Whole empty slabs, kept in arrays: the slab given up last is the next one to be used, with its pages there and its TLB entries warm.
//
//   slabs of 1 granule   [ s │ s │ s │   │ ]  ◀─ push, pop at the end        full: the slab goes below
//   slabs of 2 granules  [ s │   │   │   │ ]                                 empty: one is asked for below
//
// A backbone whose classes breathe gives up a span and asks for one again and again. Below, that span would be merged with its
// neighbours, and another one, perhaps never touched, would be cut off. Spans longer than kGranulesMax go by.
//
// Progress: blocking, one lock for a push or a pop. Source: magazines [BonwickAdams01], here of slabs;
// empty slabs kept as in [Bonwick94]. Placement: directly below a backbone of spans (Slab, SegregatedFit), above SpanCache.
#pragma once

#include <cstring>

#include "mortise/core/core.hpp"
#include "mortise/shape/page_index.hpp"
#include "mortise/sync/futex_lock.hpp"
#include "mortise/sync/locked.hpp"

namespace mortise {

/// `kSlots` (1..1024): the most slabs kept of one length.
/// `kGranulesMax` (1..64): the longest slab that is kept, in granules.
/// `Sync`: the one lock of the arrays.
template <unsigned kSlots = 8, unsigned kGranulesMax = 16, Lock Sync = FutexLock> struct SlabArrayCache {
  static constexpr const char* kName = "SlabArrayCache";
  static constexpr const char* kWhat = "whole empty slabs in arrays by length, the last one used first";
  static constexpr const char* kNeeds = "a layer below that gives spans and finds them, without walls (SpanCache over PageIndex)";
  template <class Out> static void describe(Out& out) {
    out.layer(kName, kWhat).number("slots", kSlots).number("granules_max", kGranulesMax).policy("Sync", Sync::kName);
  }

  template <GivesSpans Below> requires (!facts_of<Below>().has_walls()) class Over : public Locked<Below, Sync> {
   public:
    using typename Passthrough<Below>::Thread;
    using Index = IndexOf<Below>;
    static constexpr Progress kProgress = weakest(Below::kProgress, Progress::of(Sync::kGuarantee));

    Block allocate(Thread& t, Request r) noexcept {
      const std::size_t granules = round_up(r.size ? r.size : 1, Index::kGranule) / Index::kGranule;
      if (granules > kGranulesMax || r.align > Index::kGranule) return this->below.allocate(t, r);
      Span* const s = pop(static_cast<unsigned>(granules));
      if (!s) return this->below.allocate(t, {.size = granules * Index::kGranule, .align = r.align, .zeroed = r.zeroed});
      const Block b{index().base_of(s), Index::bytes_of(s)};
      if (r.zeroed) std::memset(b.ptr, 0, b.size);
      return b;
    }
    void release(Thread& t, Block b) noexcept {
      Span* const s = index().span_of(b.ptr);
      // A block that was resized to less than its span has a tail: what pops later must be whole.
      if (s->granules > kGranulesMax || s->tail_pages != 0 || !push(s, b)) this->below.release(t, b);
    }

    /// Gives all slabs below, then trims below.
    std::size_t trim(Thread& t) noexcept {
      for (unsigned granules = 1; granules <= kGranulesMax; ++granules)
        while (Span* const s = pop(granules)) this->below.release(t, {index().base_of(s), Index::bytes_of(s)});
      return trim_below(this->below, t);
    }
    void tell(Usage& u) noexcept {
      tell_below(this->below, u);
      Held held(this->lock_);
      for (const Array& a : arrays_) {
        const std::size_t bytes = a.count * static_cast<std::size_t>(&a - arrays_ + 1) * Index::kGranule;
        u.cached += bytes;  // below counts them as large blocks
        u.live -= bytes;
        u.large -= bytes;
        u.large_count -= a.count;
      }
    }
    /// Reports heap_inconsistent when a slab in an array is in use, or of another length. O(slabs).
    void audit() noexcept {
      if constexpr (Audits<Below>) this->below.audit();
      Held held(this->lock_);
      for (const Array& a : arrays_)
        for (unsigned i = 0; i < a.count; ++i)
          MORTISE_AUDIT(a.slab[i]->state == SpanState::none && a.slab[i]->granules == static_cast<unsigned>(&a - arrays_ + 1));
    }

   private:
    Index& index() noexcept { return this->below.page_index(); }
    struct Array {
      unsigned count;
      Span* slab[kSlots];
    };

    Span* pop(unsigned granules) noexcept {
      Array& a = arrays_[granules - 1];
      Held held(this->lock_);
      if (a.count == 0) return nullptr;
      Span* const s = a.slab[--a.count];
      s->state = SpanState::large;
      return s;
    }
    /// Nobody's while it is kept: a second release of the same span is seen.
    bool push(Span* s, Block b) noexcept {
      Array& a = arrays_[s->granules - 1];
      Held held(this->lock_);
      MORTISE_CHECK(s->state == SpanState::large && index().base_of(s) == b.ptr, Fault::invalid_free, b);
      if (a.count == kSlots) return false;
      s->state = SpanState::none;
      a.slab[a.count++] = s;
      return true;
    }

    Array arrays_[kGranulesMax] = {};
  };
};

}  // namespace mortise
