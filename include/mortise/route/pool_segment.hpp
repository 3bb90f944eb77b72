// What affinity pools are made of: segments of one page or so, each full of objects of one size, described out of line.
//
//   PoolSegment (64 bytes, in a table beside the pools)          segment (4 KiB), no header and no object headers
//   ┌──────┬──────┬──────┬────────┬───────┬─────┬──────┬───┐     ┌────────┬────────┬────────┬────────┬──────────────┐
//   │ free │ head │ live │ notice │ fresh │ end │ next │ … │     │ object │ object │ (free) │ object │ never used   │
//   └──┬───┴──────┴──────┴────────┴───┬───┴─────┴──────┴───┘     └────────┴────────┴───▲────┴────────┴▲─────────────┘
//      └───────────────────────────── │ ────────────────────────────────────────────────┘             │
//                                     └────────────────────────────────────────────────────────────────┘
//
// Objects lie one behind the other through the segments of an extent, over their ends, and belong where they begin: a step of another
// length at each end would be a wait for memory there, since processors fetch ahead what lies in equal steps.
// A list a segment, not a pool: objects allocated one after another then lie together even after much was released.
// The descriptors lie apart: in-line headers of page-sized segments would all fall into the same set of the cache.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mortise/core/core.hpp"
#include "mortise/policy/chooser.hpp"
#include "mortise/sync/atomics.hpp"

namespace mortise {

enum class SegmentState : std::uint8_t { none, current, with_room, full, free_dirty, free_clean };

/// Owned by the thread that owns `head`; a free one by the range, under its lock. `live` is read by whoever counts.
struct alignas(64) PoolSegment {
  static constexpr std::uint32_t kNever = 0;

  std::byte* free;       ///< objects released, the last one first
  PoolHead* head;        ///< whose objects these are; null while the segment is free
  std::uint32_t live;    ///< objects out, those waiting in the head's remote list among them
  std::uint32_t notice;  ///< a release that finds so many objects out needs a decision; kNever: none does, short of a fault
  std::byte* fresh;      ///< never handed out from here
  std::byte* end;        ///< of the last object; may lie in the segment behind
  PoolSegment* next;     ///< in the head's list of segments with room, or in the range's list of free ones
  PoolSegment* prev;
  std::uint32_t stride;  ///< 0: objects of several sizes lie here
  std::uint8_t stamp;    ///< free: in which round of purging it became so
  std::uint8_t first;    ///< kMinAlign-byte granules in front of the first object
  SegmentState state;
  std::uint8_t skip;     ///< those of them that an object of the segment before may still end in
};
static_assert(sizeof(PoolSegment) == 64, "a descriptor is one cache line");

/// One thread's end of a pool. A head outlives its thread: the next one that needs the pool takes it over, with all it holds.
struct alignas(64) PoolHead {
  /// The owner of an orphan: not the record of any thread, nor that of one that has none yet.
  static void* nobody() noexcept { return reinterpret_cast<void*>(1); }

  Atomic<void*> owner;            ///< the thread's record, or nobody(). Compared only, by who releases.
  PoolSegment* current;           ///< where objects come from; never null
  PoolSegment* with_room;         ///< others that have been released into
  Pool* pool;
  std::int32_t lease;             ///< objects still to be looked up before the Chooser is asked whether that pays
  std::uint32_t leased;           ///< how many they were
  std::uint32_t grown;            ///< segments taken that the Chooser has not been told of
  std::uint32_t extent_next;      ///< segments still to come of the extent taken last
  std::uint32_t extent_end;
  std::uint32_t extent_segments;  ///< how many the next extent has
  bool is_forwarding;             ///< = pool->is_forwarding, where a miss finds it
  void* mixed;                    ///< the MixedPool that serves it, for objects of several sizes; null: segments do
  PoolHead* next_orphan;
  PoolHead* next_head;            ///< of all that there are
  PoolHead* next_of_thread;
  Atomic<std::byte*> remote;      ///< objects that other threads have released

  /// Another thread's release, or a signal handler's. Lock-free.
  void push_remote(std::byte* p) noexcept {
    std::byte* first = remote.load(Order::relaxed);
    do *reinterpret_cast<std::byte**>(p) = first;
    while (!remote.compare_exchange_weak(first, p, Order::release, Order::relaxed));  // pairs with the acquire in take_remote()
  }
  /// All of them, the last one first, each with a link to the next; null: none. The owner. Wait-free.
  std::byte* take_remote() noexcept { return remote.load(Order::relaxed) ? remote.exchange(nullptr, Order::acquire) : nullptr; }
};

inline std::byte*& link_of(std::byte* object) noexcept { return *reinterpret_cast<std::byte**>(object); }

}  // namespace mortise
