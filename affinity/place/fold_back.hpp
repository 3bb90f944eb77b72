// Which pools give their objects back to the size class: those that are half empty though they have grown. A pool of its own pays
// while what lies in it is visited; scattered survivors of what was released cost pages, lines and TLB entries instead.
//
//   whenever the number of pools has doubled: every pool with two segments or more, less than half of whose room is taken
#pragma once

#include "affinity/seam.hpp"

namespace mortise::affinity {

constexpr bool is_half_empty(const Fullness& f) noexcept { return f.segments >= 2 && f.live * 2 < f.room; }

class FoldBack {
 public:
  static constexpr std::uint32_t kPoolsBefore = 16;  // fewer are not worth a look

  /// One more pool has been made. Calls fold(node) for each node whose pool is half empty. O(1) but when the number doubled.
  template <class Fold> void made_pool(Fold&& fold) noexcept {
    if (++pools_ < kPoolsBefore || (pools_ & (pools_ - 1))) return;
    if (!rows_ && !(rows_ = reinterpret_cast<Fullness*>(analysis_memory(kNodesMax * sizeof(Fullness))))) return;
    const NodeId end = last_node() + 1 < kNodesMax ? last_node() + 1 : kNodesMax;
    for (NodeId n = 0; n < end; ++n) rows_[n] = {};
    survey_pools(rows_, end);
    for (NodeId n = 1; n < end; ++n)
      if (is_half_empty(rows_[n])) ++folded_, fold(n);
  }
  std::uint32_t folded() const noexcept { return folded_; }

 private:
  Fullness* rows_ = nullptr;
  std::uint32_t pools_ = 0, folded_ = 0;
};

}  // namespace mortise::affinity
