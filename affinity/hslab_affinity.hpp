// hslab+affinity: pools by the chain of calls for small objects, hslab for everything else.
//
//   malloc(24)   AffinityPools: the chain of calls has a pool: one pop from it ─ done
//                ─ too few objects yet, or no reason to keep them apart: hslab, or the pool of the size class
//   malloc(1000) hslab
//   free(p)      in a pool? its segment's list ─ done; else hslab
#pragma once

#include "affinity/observe/observer.hpp"
#include "mortise/allocators/hslab.hpp"
#include "mortise/route/affinity_pools.hpp"

namespace mortise {

using HslabAffinityLayers = Join<Layers<AffinityPools<affinity::Observer>>, HslabLayers>;

namespace allocators {
struct hslab_affinity {
  using List = HslabAffinityLayers;
  using Heap = Stack<List>;
  static constexpr const char* kName = "hslab+affinity";
  static constexpr const char* kSummary = "hslab, with small objects pooled by the chain of calls that asks for them";
  static constexpr const char* kUse = "pointer-heavy programs, unmodified";
  static constexpr unsigned kMallocBudget = 40, kFreeBudget = 34;  ///< instructions of a hit, `ret` included; tests/golden checks
};
}  // namespace allocators

}  // namespace mortise
