// hslab+affinity with segments of other sizes, to see what their size is worth. Built by `make bench-affinity`.
#pragma once

#include "affinity/hslab_affinity.hpp"

namespace mortise::allocators {

template <std::size_t kSegmentBytes> struct hslab_affinity_by {
  using List = Join<Layers<AffinityPools<affinity::Observer, kSegmentBytes>>, HslabLayers>;
  using Heap = Stack<List>;
  static constexpr const char* kSummary = "hslab+affinity with segments of another size";
  static constexpr const char* kUse = "measurements";
  static constexpr unsigned kMallocBudget = 0, kFreeBudget = 0;
};
struct hslab_affinity_1k : hslab_affinity_by<1_KiB> {
  static constexpr const char* kName = "hslab+affinity-1k";
};
struct hslab_affinity_16k : hslab_affinity_by<16_KiB> {
  static constexpr const char* kName = "hslab+affinity-16k";
};
struct hslab_affinity_64k : hslab_affinity_by<64_KiB> {
  static constexpr const char* kName = "hslab+affinity-64k";
};

}  // namespace mortise::allocators
