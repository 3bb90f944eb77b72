// hslab_hardened: hslab with every guard whose cost stays small. The safest default.
//
//   malloc   SampledGuards: one in 20000 alone on a page ─ SealedTail: a canary behind the request, a seal at the block's end
//            ─ hslab
//   free(p)  SizeCheck, where the delete names a size ─ SealedTail: is p held, and whole?
//            ─ DelayedBatches: zeroed at its start, into this thread's quarantine; must be zero there when it leaves
//   memory   GuardPages: a page without access behind each of 16 slabs; the slabs' bookkeeping out of line
//
// Blocks are not given out in random order (RandomSlots): what a program makes together it visits together.
//
// Large blocks have no page behind them: it took three system calls each time that one was made, resized or released, and a tail tells of
// the same writes when they are. Slabs beyond the first 16 have none either: memory with walls in it gets no huge pages.
//
// No block is smaller than 32 bytes, so that a release zeroes two words of each and asks nothing. Up to 512 bytes classes are 16 bytes
// apart, so that the seal at a block's end is close behind the canary at the request's.
//
// What each guard costs and finds: docs/5-faults.md.
#pragma once

#include "mortise/allocators/hslab.hpp"
#include "mortise/guard/delayed_batches.hpp"
#include "mortise/guard/guard_pages.hpp"
#include "mortise/guard/sampled_guards.hpp"
#include "mortise/guard/sealed_tail.hpp"
#include "mortise/guard/size_check.hpp"
#include "mortise/shape/limited_to.hpp"

namespace mortise {

using HslabHardenedLayers = Layers<
    SampledGuards<>,                                                           // reads, too, for a few blocks
    SizeCheck<>,                                                               // delete as what was made
    SealedTail<>,                                                              // held or released; a canary and a seal behind it
    DelayedBatches<64_KiB, fills::ZeroedStart<>, 32_KiB>,                      // zeroed at its start, and still zero when it leaves
    Aligned,
    CoreCache<32_KiB>,
    Bypass<LargerThan<256_KiB>,
           BatchedFree<1024, 128_KiB>,
           Slab<classes::Coloured<classes::ExactSmall<512, 8, 256_KiB, 32>>, FutexLock, fit::FullestFirst>,
           GuardPages<16, false>>,                                            // a wall behind each of the first slabs
    SpanCache<purge::AfterDelay<100>>,
    PageIndex,
    LimitedTo<>,                                                               // ENOMEM at the limit that was set, if any
    MmapHeap<>>;

using HslabHardenedHeap = Stack<HslabHardenedLayers>;

static_assert(Moves<HslabHardenedHeap>, "guards keep large blocks that grow from being copied");

namespace allocators {
struct hslab_hardened {
  using List = HslabHardenedLayers;
  using Heap = HslabHardenedHeap;
  static constexpr const char* kName = "hslab_hardened";
  static constexpr const char* kSummary = "hslab with every guard of small cost: overflows, wrong frees, writes after free";
  static constexpr const char* kUse = "the safest default";
  static constexpr bool kRefusesForeign = true;  ///< a pointer into a file, the stack or nothing is a fault, nobody else's block
  static constexpr unsigned kMallocBudget = 40, kFreeBudget = 60;  ///< instructions of a hit, `ret` included; tests/golden checks
};
}  // namespace allocators

}  // namespace mortise
