// What spans and slots of wfslab keep, for whoever asks what the heap holds: blocks that are free there, and spans that nothing uses.
// Reads while the slot's holder goes on: exact when it rests. Progress: wait-free, O(classes). Placement: in WaitFreeSlab.
#pragma once

#include "mortise/backbone/wait_free_slot.hpp"
#include "mortise/core/usage.hpp"
#include "mortise/shape/page_index.hpp"

namespace mortise {

/// Visits every span in a slot: at rest all of them, otherwise those of the moment it came by. O(granules of the heap).
template <class Index, class Visit> void each_wait_free_span(Index& index, Visit visit) noexcept {
  for (std::uint32_t g = 0; g < index.covered(); ++g) {
    const Span& s = index.spans()[g];
    if (s.state != SpanState::slab || s.head != g) continue;
    auto* const record = reinterpret_cast<WaitFreeSpan*>(index.bits_at(g));
    if (const unsigned c = record->size_class.load(Order::relaxed)) visit(*record, c);
  }
}

template <SizeMap Classes> void tell_span(const WaitFreeSpan& s, unsigned c, Usage& u) noexcept {
  using Geometry = WaitFreeGeometry<Classes>;
  const unsigned opened = s.opened.load(Order::relaxed), most = opened * 64;
  const unsigned handed = most < Geometry::capacity(c) ? most : Geometry::capacity(c);
  const std::size_t bytes = Geometry::span_bytes(c);
  u.in_slabs(c, Classes::size_of(c), handed - s.bin.count(opened), 1, bytes);
  u.live -= bytes;  // below counts a span as one large block
  u.large -= bytes;
  u.large_count -= 1;
}

/// Reports heap_inconsistent when a count and a bitmap of span `s` of `slot` disagree, or nobody would find its free blocks; at rest.
template <SizeMap Classes> void audit_span(const WaitFreeSpan& s, unsigned c, const WaitFreeSlot<Classes>& slot) noexcept {
  using Geometry = WaitFreeGeometry<Classes>;
  const unsigned opened = s.opened.load(Order::relaxed);
  MORTISE_AUDIT(opened <= Geometry::words(c) && s.bin.is_sound(opened, Geometry::capacity(c)));
  MORTISE_AUDIT(s.is_listed || slot.is_current(&s) || s.bin.is_marked() || s.bin.count(opened) == 0);
}

template <SizeMap Classes> void tell_slot(const WaitFreeSlot<Classes>& slot, Usage& u) noexcept {
  constexpr unsigned kNoCore = ~0u;  // slots are threads', not cores'
  const auto free_in = [&](unsigned c, unsigned blocks) { u.in_cache(kNoCore, c, Classes::size_of(c), blocks); };
  for (unsigned c = 1; c <= Classes::kCount; ++c) {
    const auto& bin = slot.bins[c];
    const int words = std::popcount(bin.word.load(Order::relaxed)) + std::popcount(bin.out.load(Order::relaxed));
    free_in(c, bin.count.load(Order::relaxed) + static_cast<unsigned>(words));
  }
  for (unsigned i = 0, c = kNoClass; i < WaitFreeDepartures::kStages; ++i)
    if (const unsigned n = slot.departures.count(i, c)) free_in(c, n);
  for (unsigned kind = 0; kind < kSpanKinds; ++kind) {
    const std::size_t n = slot.spares[kind].load(Order::relaxed), bytes = n * kSpanKindBytes[kind];
    u.live -= bytes;  // below counts a span as one large block
    u.large -= bytes;
    u.large_count -= n;
    u.dirty += bytes;
  }
}

}  // namespace mortise
