// hslabd: hslab with delayed free and header magic: what a released block is used for, or released for again, is caught.
//
//   malloc   HeaderMagic: the block is marked as held, by its class ─ DelayedBatches: goes on ─ hslab
//   free(p)  HeaderMagic: the class that the mark names ─ DelayedBatches: is it one, and has it room? ─ marked as released
//            ─ into this thread's quarantine ─ done
//            ─ the oldest batch of a full quarantine goes on to hslab
//
// What each guard costs and finds: docs/5-faults.md.
#pragma once

#include "mortise/allocators/hslab.hpp"
#include "mortise/guard/delayed_batches.hpp"
#include "mortise/guard/header_magic.hpp"
#include "mortise/shape/block_marks.hpp"

namespace mortise {

using HslabdLayers = Join<
    Layers<HeaderMagic<>,                          // a mark out of line: held or released
           DelayedBatches<64_KiB, fills::Untouched, 32_KiB>>,  // released blocks wait for 64 KiB of later ones, a thread
    HslabOver<BlockMarks<>, MmapHeap<>>>;          // the marks: a byte for 16

using HslabdHeap = Stack<HslabdLayers>;

namespace allocators {
struct hslabd {
  using List = HslabdLayers;
  using Heap = HslabdHeap;
  static constexpr const char* kName = "hslabd";
  static constexpr const char* kSummary = "hslab with a 64 KiB quarantine and header magic: double and invalid frees at once";
  static constexpr const char* kUse = "hslab, hardened against misuse of free";
  static constexpr unsigned kMallocBudget = 32, kFreeBudget = 32;  ///< instructions of a hit, `ret` included; tests/golden checks
};
}  // namespace allocators

}  // namespace mortise
