// wfslabs: wfslab with a tail checksum: a write past the end of a block is found when it is released.
//
//   malloc   TailChecksum: 8 bytes more ─ wfslab ─ a keyed word behind the block
//   free(p)  TailChecksum: is the block whole? ─ wfslab
//
// The checksum waits for nobody: the bounds of wfslab hold, a constant number of instructions later. What it finds: docs/5-faults.md.
#pragma once

#include "mortise/allocators/wfslab.hpp"
#include "mortise/guard/tail_checksum.hpp"

namespace mortise {

using WfslabsLayers = Join<
    Layers<TailChecksum<>>,   // a keyed word behind each block
    WfslabLayers>;

using WfslabsHeap = Stack<WfslabsLayers>;

static_assert(WfslabsHeap::kProgress.hit == Guarantee::wait_free && WfslabsHeap::kProgress.refill == Guarantee::wait_free,
              "a checksum waits for nobody");

namespace allocators {
struct wfslabs {
  using List = WfslabsLayers;
  using Heap = WfslabsHeap;
  static constexpr const char* kName = "wfslabs";
  static constexpr const char* kSummary = "wfslab with a tail checksum: writes past the end of a block are found";
  static constexpr const char* kUse = "wfslab, hardened against overflows";
  static constexpr unsigned kMallocBudget = 48, kFreeBudget = 58;  ///< instructions of a hit, `ret` included; tests/golden checks
};
}  // namespace allocators

}  // namespace mortise
