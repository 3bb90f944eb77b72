// tlsfcc: TLSF whose lock combines: for real-time and embedded programs on several cores.
//
//   malloc, free   Tlsf: a bounded step, done by whoever holds the combining lock - MmapHeap when there is no chunk large enough
//
// A step is constant. A call waits for at most 256 + 2 n steps of others (n threads) while no holder is preempted, and naps, 100
// microseconds at a time, when there are more threads than cores. Over a static arena (StaticHeap in a composition of one's own)
// nothing asks the system; tests/count has the bound in instructions.
#pragma once

#include "mortise/backbone/tlsf.hpp"
#include "mortise/core/core.hpp"
#include "mortise/shape/limited_to.hpp"
#include "mortise/source/mmap_heap.hpp"
#include "mortise/sync/flat_combining_lock.hpp"

namespace mortise {

using TlsfccLayers = Layers<
    Tlsf<FlatCombiningLock<>>,  // every size, in constant time
    LimitedTo<>,                // ENOMEM at the limit that was set, if any
    MmapHeap<>>;

using TlsfccHeap = Stack<TlsfccLayers>;

namespace allocators {
struct tlsfcc {
  using List = TlsfccLayers;
  using Heap = TlsfccHeap;
  static constexpr const char* kName = "tlsfcc";
  static constexpr const char* kSummary = "two-level segregated fit, requests combined: every step constant, no step lost to a lock";
  static constexpr const char* kUse = "real-time and embedded programs on several cores";
  static constexpr unsigned kMallocBudget = 0, kFreeBudget = 0;  ///< no hit path: every call takes the lock
};
}  // namespace allocators

}  // namespace mortise
