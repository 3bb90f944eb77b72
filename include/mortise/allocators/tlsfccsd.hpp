// tlsfccsd: tlsfcc with tail checksum, delayed free and header magic.
//
//   malloc   TailChecksum: a word behind the block ─ HeaderMagic: marked as held ─ DelayedReuse: what has waited long enough ─ done
//   miss     ─ Tlsf: a bounded step, done by whoever holds the lock
//   free(p)  HeaderMagic: is p held? ─ TailChecksum: is it whole? ─ DelayedReuse: into this thread's quarantine ─ done
//            ─ the oldest eight of a full quarantine go on to Tlsf, in one request
//
// What tlsfcc has EliminationArray for, the quarantine does here: a malloc takes from it what its thread has freed, though not at once.
#pragma once

#include "mortise/backbone/tlsf.hpp"
#include "mortise/core/core.hpp"
#include "mortise/guard/delayed_reuse.hpp"
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
    DelayedReuse<64_KiB>,     // released blocks wait, 64 KiB of them a thread, then serve mallocs
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
  static constexpr unsigned kMallocBudget = 0, kFreeBudget = 0;  ///< a hit reads a tag, a mark and a checksum, and moves the quarantine on
};
}  // namespace allocators

}  // namespace mortise
