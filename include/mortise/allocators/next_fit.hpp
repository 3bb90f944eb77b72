// next_fit: boundary tags, first that fits behind the last one taken. One backbone over one source, nothing
// else: what the textbooks compare.
//
//   malloc, free   BoundaryTag: one lock, one search in a tree of free chunks - MmapHeap when there is none
#pragma once

#include "mortise/backbone/boundary_tag.hpp"
#include "mortise/core/core.hpp"
#include "mortise/shape/limited_to.hpp"
#include "mortise/source/mmap_heap.hpp"

namespace mortise {

using NextFitLayers = Layers<
    BoundaryTag<fit::NextFit, FutexLock>,  // every size, free neighbours merged at once
    LimitedTo<>,                           // ENOMEM at the limit that was set, if any
    MmapHeap<>>;

using NextFit = Stack<NextFitLayers>;

namespace allocators {
struct next_fit {
  using List = NextFitLayers;
  using Heap = NextFit;
  static constexpr const char* kName = "next_fit";
  static constexpr const char* kSummary = "boundary tags, first that fits behind the last one taken";
  static constexpr const char* kUse = "study and comparison";
  static constexpr unsigned kMallocBudget = 0, kFreeBudget = 0;  ///< no hit path: every call takes the lock
};
}  // namespace allocators

}  // namespace mortise
