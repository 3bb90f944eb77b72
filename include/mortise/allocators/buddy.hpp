// buddy: powers of two, halved and merged. One backbone over one source, nothing else: what the textbooks compare.
//
//   malloc, free   Buddy: one lock, a split or a merge for each power of two between the block and its parent - MmapHeap when
//                  there is none large enough
#pragma once

#include "mortise/backbone/buddy.hpp"
#include "mortise/core/core.hpp"
#include "mortise/shape/limited_to.hpp"
#include "mortise/source/mmap_heap.hpp"

namespace mortise {

using BuddyLayers = Layers<
    Buddy<FutexLock>,  // every size up to the next power of two; halves merged at once
    LimitedTo<>,       // ENOMEM at the limit that was set, if any
    MmapHeap<>>;

using BuddyHeap = Stack<BuddyLayers>;

namespace allocators {
struct buddy {
  using List = BuddyLayers;
  using Heap = BuddyHeap;
  static constexpr const char* kName = "buddy";
  static constexpr const char* kSummary = "binary buddies: powers of two, aligned to their size, merged at once";
  static constexpr const char* kUse = "study and comparison; blocks that must be aligned to their size";
  static constexpr unsigned kMallocBudget = 0, kFreeBudget = 0;  ///< no hit path: every call takes the lock
};
}  // namespace allocators

}  // namespace mortise
