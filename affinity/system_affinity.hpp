// system+affinity: pools by the chain of calls for small objects, over the malloc that the program would have without us. Built by
// `make bench-affinity`, to tell what pools add to the system's allocator from what another allocator does.
#pragma once

#include "abi/next_heap.hpp"
#include "affinity/observe/observer.hpp"
#include "mortise/route/affinity_pools.hpp"

namespace mortise::allocators {

struct system_affinity {
  using List = Layers<AffinityPools<affinity::Observer>, NextHeap>;
  using Heap = Stack<List>;
  static constexpr const char* kName = "system+affinity";
  static constexpr const char* kSummary = "the system's malloc, with small objects pooled by the chain of calls that asks for them";
  static constexpr const char* kUse = "measurements";
  static constexpr unsigned kMallocBudget = 0, kFreeBudget = 0;
};

}  // namespace mortise::allocators
