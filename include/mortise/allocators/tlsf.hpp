// tlsf: constant time under one lock. The plain original, for comparison and for small real-time programs.
//
//   malloc, free   Tlsf: one lock, a bounded step - MmapHeap when there is no chunk large enough
#pragma once

#include "mortise/backbone/tlsf.hpp"
#include "mortise/core/core.hpp"
#include "mortise/shape/limited_to.hpp"
#include "mortise/source/mmap_heap.hpp"

namespace mortise {

using TlsfLayers = Layers<
    Tlsf<FutexLock>,  // every size, in constant time
    LimitedTo<>,      // ENOMEM at the limit that was set, if any
    MmapHeap<>>;

using TlsfHeap = Stack<TlsfLayers>;

namespace allocators {
struct tlsf {
  using List = TlsfLayers;
  using Heap = TlsfHeap;
  static constexpr const char* kName = "tlsf";
  static constexpr const char* kSummary = "two-level segregated fit under one lock: every step constant";
  static constexpr const char* kUse = "comparison; small real-time programs";
  static constexpr unsigned kMallocBudget = 0, kFreeBudget = 0;  ///< no hit path: every call takes the lock
};
}  // namespace allocators

}  // namespace mortise
