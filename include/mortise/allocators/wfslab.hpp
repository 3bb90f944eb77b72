// wfslab: every malloc and free ends within a bounded number of its own steps, whatever other threads do. Read top to bottom.
//
//   malloc hit     WaitFreeSlab::allocate_hit   pop from this thread's slot; no atomic instruction, no lock
//     └─ refill    one exchange takes up to 64 blocks of a span; or a span from SpanReserve: wait-free as well
//         └─ grow  the reserve is exhausted, or the block is larger than 64 KiB: SpanCache, which has a lock; counted
//   free           into this thread's slot, else home with its neighbours: one addition to their span's bitmap, whoever's it is: wait-free
//
// No restartable sequences: a section may be restarted without bound, by the kernel, and a claim of wait-freedom would not hold.
// Memory goes back to the system by malloc_trim only, and not from within malloc and free. The bound: docs/6-proof.md.
#pragma once

#include "mortise/backbone/wait_free_slab.hpp"
#include "mortise/cache/span_cache.hpp"
#include "mortise/cache/span_reserve.hpp"
#include "mortise/core/core.hpp"
#include "mortise/policy/huge.hpp"
#include "mortise/policy/purge.hpp"
#include "mortise/shape/aligned.hpp"
#include "mortise/shape/limited_to.hpp"
#include "mortise/shape/page_index.hpp"
#include "mortise/source/mmap_heap.hpp"

namespace mortise {

using WfslabLayers = Layers<
    Aligned,                                          // alignment beyond 16: a class that has it
    WaitFreeSlab<classes::Geometric<8, 64_KiB>>,      // a slot a thread; frees go home by one atomic addition
    SpanReserve<>,                                    // spans at hand for everybody
    SpanCache<purge::Never, huge::ForBlocks>,         // grow: free spans, merged, under a lock
    PageIndex,                                        // pointer -> span
    LimitedTo<>,                                      // ENOMEM at the limit that was set, if any
    MmapHeap<>>;

using Wfslab = Stack<WfslabLayers>;

static_assert(Wfslab::kProgress.hit == Guarantee::wait_free && Wfslab::kProgress.refill == Guarantee::wait_free,
              "hits and refills end within a bounded number of their own steps");

namespace allocators {
struct wfslab {
  using List = WfslabLayers;
  using Heap = Wfslab;
  static constexpr const char* kName = "wfslab";
  static constexpr const char* kSummary = "wait-free slabs, wait-free remote free: a bounded worst case of every malloc and free";
  static constexpr const char* kUse = "audio, trading, robotics, games: programs that care for the slowest call";
  static constexpr unsigned kMallocBudget = 25, kFreeBudget = 28;  ///< instructions of a hit, `ret` included; tests/golden checks
};
}  // namespace allocators

}  // namespace mortise
