// first_fit: boundary tags, lowest address that fits. One backbone over one source, nothing else: what the textbooks compare.
//
//   malloc, free   BoundaryTag: one lock, one search in a tree of free chunks - MmapHeap when there is none
#pragma once

#include "mortise/backbone/boundary_tag.hpp"
#include "mortise/core/core.hpp"
#include "mortise/shape/limited_to.hpp"
#include "mortise/source/mmap_heap.hpp"

namespace mortise {

using FirstFitLayers = Layers<
    BoundaryTag<fit::FirstFit, FutexLock>,  // every size, free neighbours merged at once
    LimitedTo<>,                            // ENOMEM at the limit that was set, if any
    MmapHeap<>>;

using FirstFit = Stack<FirstFitLayers>;

namespace allocators {
struct first_fit {
  using List = FirstFitLayers;
  using Heap = FirstFit;
  static constexpr const char* kName = "first_fit";
  static constexpr const char* kSummary = "boundary tags, lowest address that fits";
  static constexpr const char* kUse = "study and comparison; small, steady programs";
  static constexpr unsigned kMallocBudget = 0, kFreeBudget = 0;  ///< no hit path: every call takes the lock
};
}  // namespace allocators

}  // namespace mortise
