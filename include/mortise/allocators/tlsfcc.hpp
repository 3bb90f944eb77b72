// tlsfcc: TLSF whose lock combines: for real-time and embedded programs on several cores.
//
//   malloc, free   Tlsf: a bounded step, done by whoever holds the combining lock - MmapHeap when there is no chunk large enough
#pragma once

#include "mortise/backbone/tlsf.hpp"
#include "mortise/core/core.hpp"
#include "mortise/shape/limited_to.hpp"
#include "mortise/source/mmap_heap.hpp"
#include "mortise/sync/combining_lock.hpp"

namespace mortise {

using TlsfccLayers = Layers<
    Tlsf<CombiningLock<>>,  // every size, in constant time
    LimitedTo<>,            // ENOMEM at the limit that was set, if any
    MmapHeap<>>;

using TlsfccHeap = Stack<TlsfccLayers>;

namespace allocators {
struct tlsfcc {
  using List = TlsfccLayers;
  using Heap = TlsfccHeap;
  static constexpr const char* kName = "tlsfcc";
  static constexpr const char* kSummary = "two-level segregated fit, requests combined: every step constant, no step lost to a lock";
  static constexpr const char* kUse = "real-time and embedded programs on several cores";
  static constexpr unsigned kMallocBudget = 0, kFreeBudget = 0;  ///< no hit path: every call enters the queue
};
}  // namespace allocators

}  // namespace mortise
