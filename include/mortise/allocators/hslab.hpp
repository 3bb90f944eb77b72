// hslab: the fast all-rounder. Read top to bottom: a request falls, a block rises.
//
//   malloc(24)   Aligned: natural alignment, goes on ─ CoreCache: one pop from this core's magazine ─ done
//   miss         ─ BatchedFree: a batch that another core gave up ─ Slab: blocks carved from a span ─ SpanCache: a free span
//                ─ PageIndex over MmapHeap: fresh granules
//   malloc(1 MB) Bypass: past the slabs ─ SpanCache
//   free(p)      PageIndex: class of p, one load ─ CoreCache: one push ─ done
//
// On a machine with several memory nodes all of this is there once for each (PerNode).
//
// Caches belong to cores, not to threads: memory is bounded by cores, a thread that ends leaves nothing behind, and a block freed
// by another thread than its maker's is no special case. Why each layer is there, with numbers: docs/allocators.md.
#pragma once

#include "mortise/backbone/slab.hpp"
#include "mortise/cache/batched_free.hpp"
#include "mortise/cache/core_cache.hpp"
#include "mortise/cache/span_cache.hpp"
#include "mortise/core/core.hpp"
#include "mortise/policy/coloured.hpp"
#include "mortise/policy/purge.hpp"
#include "mortise/route/bypass.hpp"
#include "mortise/route/per_node.hpp"
#include "mortise/shape/aligned.hpp"
#include "mortise/shape/limited_to.hpp"
#include "mortise/shape/page_index.hpp"
#include "mortise/source/mmap_heap.hpp"

namespace mortise {

/// The layers of hslab with a cache for each core, over whatever gives it memory.
template <class Cache, class... Source> using HslabWith = Layers<
    Aligned,                                                       // alignment beyond 16: a class that has it
    Cache,                                                         // hit: a magazine of this core
    Bypass<LargerThan<256_KiB>,                                    // larger blocks are spans of their own
           BatchedFree<1024, 128_KiB>,                             // misses and remote frees travel in batches
           Slab<classes::Coloured<classes::Geometric<8, 256_KiB>>, FutexLock, fit::FullestFirst>>,
    SpanCache<purge::AfterDelay<100>>,                             // free spans, merged, purged when idle
    PageIndex,                                                     // pointer -> span
    LimitedTo<>,                                                   // ENOMEM at the limit that was set, if any
    Source...>;

/// The allocators that add guards put theirs above and below.
template <class... Source> using HslabOver = HslabWith<CoreCache<32_KiB>, Source...>;

using HslabLayers = HslabOver<MmapHeap<>>;
using Hslab = Stack<HslabLayers>;

static_assert(Hslab::kProgress.hit == Guarantee::wait_free, "a hit takes no lock");

/// What ships: a heap for each memory node.
using HslabPerNodeLayers = Join<Layers<PerNode>, HslabLayers>;

namespace allocators {
struct hslab {
  using List = HslabPerNodeLayers;
  using Heap = Stack<HslabPerNodeLayers>;
  static constexpr const char* kName = "hslab";
  static constexpr const char* kSummary = "core-aware caches over slabs: throughput and small memory with any number of threads";
  static constexpr const char* kUse = "the default";
  static constexpr unsigned kMallocBudget = 24, kFreeBudget = 24;  ///< instructions of a hit, `ret` included; tests/golden checks
};
}  // namespace allocators

}  // namespace mortise
