// segfit: a lock-free bin a size class. Read top to bottom: a request falls, a block rises.
//
//   malloc(24)   Aligned ─ SegregatedFit: one pop of two words - done
//   miss         ─ SegregatedFit: blocks carved from a span ─ SpanCache: a free span ─ PageIndex over MmapHeap: fresh granules
//   malloc(1 MB) SegregatedFit: no class ─ SpanCache
//   free(p)      PageIndex: class of p ─ SegregatedFit: one push - done
//
// No cache and no thread state: what a size class costs when all threads share its list, without a lock.
#pragma once

#include "mortise/backbone/segregated_fit.hpp"
#include "mortise/cache/span_cache.hpp"
#include "mortise/core/core.hpp"
#include "mortise/policy/purge.hpp"
#include "mortise/shape/aligned.hpp"
#include "mortise/shape/limited_to.hpp"
#include "mortise/shape/page_index.hpp"
#include "mortise/shape/stays_mapped.hpp"
#include "mortise/source/mmap_heap.hpp"
#include "mortise/sync/lock_free_bin.hpp"

namespace mortise {

using SegfitLayers = Layers<
    Aligned,                                                       // alignment beyond 16: a class that has it
    SegregatedFit<classes::Geometric<8, 256_KiB>, LockFreeBin>,    // a bin a class, without a lock; larger blocks are spans
    SpanCache<purge::AfterDelay<100>>,                             // free spans, merged, purged when idle
    PageIndex,                                                     // pointer -> span
    StaysMapped,                                                   // a slow pop may read what another thread has
    LimitedTo<>,                                                   // ENOMEM at the limit that was set, if any
    MmapHeap<>>;

using Segfit = Stack<SegfitLayers>;

namespace allocators {
struct segfit {
  using List = SegfitLayers;
  using Heap = Segfit;
  static constexpr const char* kName = "segfit";
  static constexpr const char* kSummary = "segregated fit: a lock-free list of free blocks a size class";
  static constexpr const char* kUse = "study and comparison; programs in which a thread must not wait for one that was preempted";
  static constexpr unsigned kMallocBudget = 0, kFreeBudget = 0;  ///< no hit path of its own: every call goes down the stack
};
}  // namespace allocators

}  // namespace mortise
