// hslab with a heap profile by samples on top: which call stacks hold memory, which ask for it. One sample in 512 KiB.
//
// `mortise profile -- PROG` runs a program on it. hslab itself knows nothing of it: off costs nothing.
#pragma once

#include "mortise/allocators/hslab.hpp"
#include "mortise/watch/sampled.hpp"

namespace mortise {

using HslabProfiledLayers = Join<Layers<Sampled<512_KiB>>,                                   // docs/profile.md
                                 HslabWith<CoreCache<32_KiB, by_core, 1>, MmapHeap<>>>;     // metered: a hit counts its bytes
using HslabProfiled = Stack<HslabProfiledLayers>;

namespace allocators {
struct hslab_profiled {
  using List = HslabProfiledLayers;
  using Heap = HslabProfiled;
  static constexpr const char* kName = "hslab_profiled";
  static constexpr const char* kSummary = "hslab that remembers the call stacks of sampled allocations";
  static constexpr const char* kUse = "mortise profile; finding leaks and growth in production";
  static constexpr unsigned kMallocBudget = 25, kFreeBudget = 24;  ///< instructions of a hit, `ret` included; tests/golden checks
};
}  // namespace allocators

}  // namespace mortise
