// A promise that memory once given stays mapped: what lies above may then read a block that somebody else already has.
//
// The source below could unmap a part of a block, or move its pages away; here neither is offered, so that no layer above does it. Free
// pages still go back to the system: their addresses then read as zero.
//
// Progress: as below. Placement: above a source with one window of addresses, below PageIndex; for backbones that are read without a lock
// (SegregatedFit with LockFreeBin).
#pragma once

#include "mortise/core/core.hpp"
#include "mortise/shape/limited_to.hpp"
#include "mortise/shape/page_index.hpp"

namespace mortise {

struct StaysMapped {
  static constexpr const char* kName = "StaysMapped";
  static constexpr const char* kWhat = "memory once given stays mapped: no part of it is released, no page moved";
  static constexpr const char* kNeeds = "a source with one window of addresses below (MmapHeap, BrkHeap, StaticHeap)";
  template <class Out> static void describe(Out& out) { out.layer(kName, kWhat); }

  template <Contiguous Below> class Over : public LimitedTo<>::Facts<Below> {
   public:
    using typename Passthrough<Below>::Thread;
    void release_part(Thread&, Block) = delete;
    PagesMoved move_pages(std::byte*, std::byte*, std::size_t) = delete;
  };
};

}  // namespace mortise
