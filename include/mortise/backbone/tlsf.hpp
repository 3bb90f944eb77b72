// TLSF: boundary tags with good fit in constant time.
//
// The chunks and their merging are BoundaryTag's; the free chunks lie in two levels of lists (data/two_level_lists.hpp). So a step
// of allocation or release is a bounded number of instructions, whatever the heap's size or history; only growing asks below.
// Pages are not given back on release, since that would be a system call of unbounded length; trim() does.
//
// Bound: constant. Waste: at most a sixteenth by the fit, bounded fragmentation as in the paper.
// Progress: as the Sync slot: `Unsynchronised` for one thread, a lock, or a combining one. Source: [Masmano04].
// Placement: directly above a source with one window of addresses: a static arena for a bound without exception.
#pragma once

#include "mortise/backbone/boundary_tag.hpp"

namespace mortise {

/// `Sync`: the one lock of the backbone: combining, a plain one, or none for one thread.
/// `Fit`: a fit in constant time: GoodFit, or EncodedGoodFit.
template <Lock Sync = FutexLock, fit::ChunkFit Fit = fit::GoodFit> struct Tlsf : BoundaryTag<Fit, Sync, purge::Never> {
  static constexpr const char* kName = "Tlsf";
  static constexpr const char* kWhat = "blocks of any size in constant time: two levels of lists over boundary tags";
  static constexpr const char* kNeeds = "a source with one window of addresses directly below (MmapHeap, BrkHeap, StaticHeap)";
  template <class Out> static void describe(Out& out) { out.layer(kName, kWhat).policy("Sync", Sync::kName).policy("Fit", Fit::kName); }
};

}  // namespace mortise
