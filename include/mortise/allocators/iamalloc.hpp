// iamalloc: for threads that live in address spaces of their own (mortise threads). Read top to bottom.
//
//   malloc         SubHeaps: this thread's own heap - a bin of the size, else the smallest free chunk that fits - SharedHeap
//   free           SubHeaps: home to the bin; a block of another thread's heap is pushed on that heap's list, without a lock
//
// Blocks own whole cache lines, so that threads never share one by accident. Costs memory for small blocks: 64 bytes at least.
#pragma once

#include "mortise/backbone/sub_heaps.hpp"
#include "mortise/core/core.hpp"
#include "mortise/shape/limited_to.hpp"
#include "mortise/source/shared_heap.hpp"

namespace mortise {

using IamallocLayers = Layers<
    SubHeaps<fit::BestFit>,   // one heap a thread, lending to each other
    LimitedTo<>,              // ENOMEM at the limit that was set, if any
    SharedHeap<>>;            // a slot of addresses for each, seen by all address spaces

using Iamalloc = Stack<IamallocLayers>;

namespace allocators {
struct iamalloc {
  using List = IamallocLayers;
  using Heap = Iamalloc;
  static constexpr const char* kName = "iamalloc";
  static constexpr const char* kSummary = "one sub-heap per thread over memory that isolated threads share";
  static constexpr const char* kUse = "isolated threads; programs that suffer from false sharing";
  static constexpr unsigned kMallocBudget = 0, kFreeBudget = 0;  ///< no hit path: every call takes the long way
};
}  // namespace allocators

}  // namespace mortise
