// What a slot of wfslab keeps, for whoever asks what the heap holds: blocks that are free in it, and spans that nothing uses.
// Reads while the slot's holder goes on: exact when it rests. Progress: wait-free, O(classes). Placement: in WaitFreeSlab.
#pragma once

#include "mortise/backbone/wait_free_slot.hpp"
#include "mortise/core/usage.hpp"

namespace mortise {

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
