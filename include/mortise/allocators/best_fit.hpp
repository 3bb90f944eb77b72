// best_fit: boundary tags, smallest chunk that fits. One backbone over one source, nothing else: what the textbooks compare.
//
//   malloc, free   BoundaryTag: one lock, one search in a tree of free chunks - MmapHeap when there is none
#pragma once

#include "mortise/backbone/boundary_tag.hpp"
#include "mortise/core/core.hpp"
#include "mortise/shape/limited_to.hpp"
#include "mortise/source/mmap_heap.hpp"

namespace mortise {

using BestFitLayers = Layers<
    BoundaryTag<fit::BestFit, FutexLock>,  // every size, free neighbours merged at once
    LimitedTo<>,                           // ENOMEM at the limit that was set, if any
    MmapHeap<>>;

using BestFit = Stack<BestFitLayers>;

namespace allocators {
struct best_fit {
  using List = BestFitLayers;
  using Heap = BestFit;
  static constexpr const char* kName = "best_fit";
  static constexpr const char* kSummary = "boundary tags, smallest chunk that fits";
  static constexpr const char* kUse = "small memory where speed with threads does not matter";
  static constexpr unsigned kMallocBudget = 0, kFreeBudget = 0;  ///< no hit path: every call takes the lock
};
}  // namespace allocators

}  // namespace mortise
