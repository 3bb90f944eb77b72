// tlsfccsd: tlsfcc with tail checksum, delayed free and header magic.
//
//   malloc   TailChecksum: a word behind the block ─ HeaderMagic: marked as held ─ DelayedFree: goes on ─ tlsfcc
//   free(p)  HeaderMagic: is p held? ─ TailChecksum: is it whole? ─ DelayedFree: into this thread's quarantine
#pragma once

#include "mortise/backbone/tlsf.hpp"
#include "mortise/core/core.hpp"
#include "mortise/guard/delayed_free.hpp"
#include "mortise/guard/header_magic.hpp"
#include "mortise/guard/tail_checksum.hpp"
#include "mortise/shape/block_marks.hpp"
#include "mortise/shape/limited_to.hpp"
#include "mortise/source/mmap_heap.hpp"
#include "mortise/sync/flat_combining_lock.hpp"

namespace mortise {

using TlsfccsdLayers = Layers<
    HeaderMagic<>,            // a mark out of line: held or released
    TailChecksum<>,           // a keyed word behind each block
    DelayedFree<64_KiB>,      // released blocks wait, 64 KiB of them a thread
    Tlsf<FlatCombiningLock<>, fit::EncodedGoodFit>,  // every size, in constant time; links that nobody else can write
    LimitedTo<>,              // ENOMEM at the limit that was set, if any
    BlockMarks<>,             // the marks: a byte for 16
    MmapHeap<>>;

using TlsfccsdHeap = Stack<TlsfccsdLayers>;

namespace allocators {
struct tlsfccsd {
  using List = TlsfccsdLayers;
  using Heap = TlsfccsdHeap;
  static constexpr const char* kName = "tlsfccsd";
  static constexpr const char* kSummary = "tlsfcc with tail checksum, a 64 KiB quarantine and header magic";
  static constexpr const char* kUse = "tlsfcc, hardened";
  static constexpr unsigned kMallocBudget = 0, kFreeBudget = 0;  ///< no hit path: every call enters the queue
};
}  // namespace allocators

}  // namespace mortise
