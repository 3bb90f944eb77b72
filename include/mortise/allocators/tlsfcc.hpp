// tlsfcc: TLSF whose requests combine: for real-time and embedded programs on several cores.
//
//   malloc   EliminationArray: a block of its size that this thread has freed ─ Tlsf: a bounded step, done by whoever holds the lock
//   free(p)  EliminationArray: stays with its thread, or waits until it goes to Tlsf with three others, in one request
//
// A step of TLSF is constant. A malloc makes one step or none, a free four or none; a malloc that finds no memory makes as many as it
// takes to bring back what all threads keep, at most 259 for each, then tries once more. A request waits for at most 8 + 2 n others (n
// threads) while no holder is preempted, and sleeps when there are more threads than cores. A thread keeps at most 256 KiB.
//
// Where each call shall be one step and nothing kept, leave the array out: Tlsf over StaticHeap (tests/count has both bounds in
// instructions).
#pragma once

#include "mortise/backbone/tlsf.hpp"
#include "mortise/cache/elimination_array.hpp"
#include "mortise/core/core.hpp"
#include "mortise/shape/limited_to.hpp"
#include "mortise/source/mmap_heap.hpp"
#include "mortise/sync/flat_combining_lock.hpp"

namespace mortise {

using TlsfccLayers = Layers<
    EliminationArray<>,         // a malloc and a free that cancel each other ask nobody
    Tlsf<FlatCombiningLock<>>,  // every size, in constant time
    LimitedTo<>,                // ENOMEM at the limit that was set, if any
    MmapHeap<>>;

using TlsfccHeap = Stack<TlsfccLayers>;

namespace allocators {
struct tlsfcc {
  using List = TlsfccLayers;
  using Heap = TlsfccHeap;
  static constexpr const char* kName = "tlsfcc";
  static constexpr const char* kSummary = "two-level segregated fit, requests cancelled or combined: every step constant";
  static constexpr const char* kUse = "real-time and embedded programs on several cores";
  static constexpr unsigned kMallocBudget = 0, kFreeBudget = 0;  ///< a hit makes an exchange and checks a tag: tests/compose counts it
};
}  // namespace allocators

}  // namespace mortise
