// The contract between layers: what a heap is, which capabilities it may have, and the layer that changes nothing.
//
//   request  │ a layer is a function from a heap to a heap:  struct L { template <Heap Below> class Over; };
//      ▼     │ it says only what it changes; Passthrough forwards the rest, functions and facts alike.
//   [ layer ]
//   [ below ]  a layer knows only what is below it. Lock order is stack order, and so is fork order.
//      ▲
//    block
//
// An absent capability is an absent member: layers above ask with the concepts of this file. docs/2-layers.md is the long form.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "mortise/core/block.hpp"
#include "mortise/core/block_facts.hpp"
#include "mortise/core/fault.hpp"
#include "mortise/core/growing.hpp"
#include "mortise/core/inline.hpp"
#include "mortise/core/progress.hpp"
#include "mortise/core/request.hpp"
#include "mortise/core/usage.hpp"

namespace mortise::os { struct Facts; }  // os/facts.hpp

namespace mortise {

/// The size facts of a heap that knows no size classes.
struct NoClasses {
  static constexpr unsigned kCount = 0;
};

/// Static facts on sizes: classes 1..kCount, `class_of(n)` the smallest that holds n <= kMaxBytes, `size_of(c)` its block size.
template <class C>
concept SizeMap = C::kCount > 0 && requires(std::size_t n, unsigned c) {
  { C::kMaxBytes } -> std::convertible_to<std::size_t>;
  { C::class_of(n) } -> std::same_as<unsigned>;
  { C::size_of(c) } -> std::same_as<std::size_t>;
};

template <class H>
concept Heap = requires(H& h, typename H::Thread& t, Request r, Block b) {
  typename H::Thread;
  typename H::Classes;
  { H::kProgress } -> std::convertible_to<Progress>;
  { h.allocate(t, r) } noexcept -> std::same_as<Block>;
  { h.release(t, b) } noexcept -> std::same_as<void>;
};

template <class H> concept Classed = Heap<H> && SizeMap<typename H::Classes>;

/// Finds the block behind a bare pointer, so that `free(void*)` can be offered.
/// `holds(p)`: p lies in memory of this heap (cheap). `block_of(p)`: the block, perhaps unsized. `measure(b)`: the block, sized.
template <class H> concept Locates = Heap<H> && requires(H& h, std::byte* p, Block b) {
  { h.holds(p) } noexcept -> std::same_as<bool>;
  { h.block_of(p) } noexcept -> std::same_as<Block>;
  { h.measure(b) } noexcept -> std::same_as<Block>;
};

/// Many blocks of one size class at once. `allocate_batch` returns how many it gave; `release_batch` takes all.
template <class H> concept Batches = Heap<H> && requires(H& h, typename H::Thread& t, unsigned c, std::byte** p, unsigned n) {
  { h.allocate_batch(t, c, p, n) } noexcept -> std::same_as<unsigned>;
  { h.release_batch(t, c, p, n) } noexcept -> std::same_as<void>;
};

/// Takes several blocks of any size back at once, cheaper than one by one.
template <class H> concept ReleasesSome = Heap<H> && requires(H& h, typename H::Thread& t, std::byte* const* in, unsigned n) {
  { h.release_some(t, in, n) } noexcept -> std::same_as<void>;
};

/// Has `kTag` bytes of header before each block, and says at a glance what a block takes up with them, never less than `kChunkMin`. Not
/// forwarded by Passthrough: a layer that changes what a release means would be skipped.
template <class H> concept Tagged = ReleasesSome<H> && requires(H& h, std::byte* p) {
  { H::kTag } -> std::convertible_to<std::size_t>;
  { H::kChunkMin } -> std::convertible_to<std::size_t>;
  { h.chunk_bytes_of(p) } noexcept -> std::same_as<std::size_t>;
};

/// Has a hit path of its own: `allocate_hit` serves from the topmost cache or gives an empty block, `release_hit` takes a block
/// into it or says no. Whoever owns the stack tries these inline and jumps to the full verb on a miss, so that a hit needs no
/// frame. Passthrough does not forward them: a layer that changes what a hit means would be skipped. A layer that does not
/// forwards them itself.
template <class H> concept Hits = Heap<H> && requires(H& h, typename H::Thread& t, Request r, Block b) {
  { h.allocate_hit(t, r) } noexcept -> std::same_as<Block>;
  { h.release_hit(t, b) } noexcept -> std::same_as<bool>;
};

/// Grows or shrinks a block where it lies; an empty block means it must be moved.
template <class H> concept Resizes = Heap<H> && requires(H& h, typename H::Thread& t, Block b, std::size_t n) {
  { h.resize_in_place(t, b, n) } noexcept -> std::same_as<Block>;
};

/// Moves a large block to another place by its pages, not its bytes, and resizes it; an empty block means: copy it yourself.
template <class H> concept Moves = Heap<H> && requires(H& h, typename H::Thread& t, Block b, std::size_t n) {
  { h.resize_by_moving(t, b, n) } noexcept -> std::same_as<Block>;
};

/// Stands on a page index (shape/page_index.hpp), whose descriptors of spans it may use.
template <class H> concept Indexed = Heap<H> && requires(H& h) { h.page_index(); };
template <class H> using IndexOf = std::remove_reference_t<decltype(std::declval<H&>().page_index())>;

/// Holds locks: fork takes them in stack order.
template <class H> concept HoldsLocks = requires(H& h) { h.lock_all(); h.unlock_all(); h.reset_after_fork(); };

/// Has something to do when a thread begins or ends with it.
template <class H> concept Attaches = Heap<H> && requires(H& h, typename H::Thread& t) { h.attach(t); h.detach(t); };

/// Can give memory back that it keeps for later. Returns the bytes given back to the source or to the system.
template <class H> concept Trims = Heap<H> && requires(H& h, typename H::Thread& t) {
  { h.trim(t) } noexcept -> std::same_as<std::size_t>;
};

/// Purges what has been free long enough; returns the bytes still waiting. For whoever does it in the background.
template <class H> concept Purges = requires(H& h, std::int64_t ms) {
  { h.purge_idle() } noexcept -> std::same_as<std::size_t>;
  { h.idle_bytes() } noexcept -> std::same_as<std::size_t>;
  { h.set_purge_ms(ms) } noexcept;
  { h.purge_ms() } noexcept -> std::same_as<std::int64_t>;
};

/// Must be told once, before first use, the facts of the machine. False when it cannot work here.
template <class H> concept Starts = requires(H& h, const os::Facts& f) { { h.start(f) } noexcept -> std::same_as<bool>; };

/// Gives the pages of a range back to the system while the range stays usable. After true the range reads as zero; false: the
/// pages are as they were.
template <class H> concept PurgesPages = requires(H& h, std::byte* p, std::size_t n) {
  { h.purge_pages(p, n) } noexcept -> std::same_as<bool>;
};

/// What became of pages that were to be moved. `source_lost`: the bytes are at their new place, but the old one could not be
/// mapped again and is nobody's any more. `target_lost`: nothing was moved, and the new place is nobody's any more.
enum class PagesMoved { no, yes, source_lost, target_lost };

/// Moves the pages of one range of its own over those of another, and leaves fresh ones behind that read as zero.
template <class H> concept MovesPages = requires(H& h, std::byte* from, std::byte* to, std::size_t n) {
  { h.move_pages(from, to, n) } noexcept -> std::same_as<PagesMoved>;
};

/// Refuses what would go beyond a number of bytes taken from the source.
template <class H> concept Limits = requires(H& h, std::size_t n) {
  { h.set_limit_bytes(n) } noexcept;
  { h.limit_bytes() } noexcept -> std::same_as<std::size_t>;
  { h.taken_bytes() } noexcept -> std::same_as<std::size_t>;
};

/// Counts what the program may touch, not what is mapped: of memory that was taken, a backbone takes the parts off that it has
/// never handed out, and puts them back on when it does. `charge` says no beyond the limit unless it `must` be counted.
template <class H> concept Charges = requires(H& h, std::size_t n, bool must) {
  { h.charge(n, must) } noexcept -> std::same_as<bool>;
  { h.uncharge(n) } noexcept;
};

/// The same for memory that a layer has from elsewhere. Progress: as `charge`.
template <class H> concept ChargesBeside = requires(H& h, std::size_t n) {
  { h.charge_beside(n) } noexcept -> std::same_as<bool>;
  { h.uncharge_beside(n) } noexcept;
};

/// Knows how much of what it gave is in memory. False when the system does not tell. O(pages).
template <class H> concept SeesResidency = requires(H& h, std::size_t& n) {
  { h.see_resident_bytes(n) } noexcept -> std::same_as<bool>;
};

/// Takes back any whole granules of what it gave, not only blocks as it gave them.
template <class H> concept ReleasesParts = Heap<H> && requires(H& h, typename H::Thread& t, Block b) {
  { h.release_part(t, b) } noexcept;
};

/// Keeps less for later once it holds more than a number of bytes.
template <class H> concept Yields = requires(H& h, std::size_t n) {
  { h.set_soft_limit_bytes(n) } noexcept;
  { h.is_pressed() } noexcept -> std::same_as<bool>;
};

/// What the heap says to the kernel about huge pages. `automatic`: as composed (the Huge slot).
enum class HugePages : std::uint8_t { automatic, never, madvise };
template <class H> concept AdvisesHuge = requires(H& h, HugePages p) { { h.set_huge_pages(p) } noexcept; };

/// Hands out memory for the bookkeeping of layers: zeroed, never released.
template <class H> concept GivesMeta = requires(H& h, std::size_t n) { { h.meta(n) } noexcept -> std::same_as<std::byte*>; };

/// What happens when a reserve is exhausted.
enum class OnExhausted : unsigned char { grow, fail };

/// What a heap is to keep ready, from the call on.
struct Reserve {
  std::size_t bytes = 0;     ///< of free memory, at most as much as its layer has room for
  bool prefault = false;     ///< its pages are brought in at once
  bool lock = false;         ///< and may not be swapped out
  OnExhausted on_exhausted = OnExhausted::grow;
};

/// Keeps memory ready, so that calls below the reserve do not wait. `reserve` fills it up again each time it is called (it may
/// wait and call the system) and is false when memory runs out before.
template <class H> concept Reserves = requires(H& h, typename H::Thread& t, Reserve r) {
  { h.reserve(t, r) } noexcept -> std::same_as<bool>;
};

/// Counts the bytes of hits down on meters, and misses while the one that counts is below zero. Any thread; of two that set or count one
/// at a time, one may be lost.
template <class H> concept Meters = requires(H& h, std::size_t n, std::int64_t left) {
  { h.read_meter(n, left) } noexcept -> std::same_as<bool>;
  { h.set_meter(n, left) } noexcept;
};
inline constexpr std::int64_t kMeterUnset = INT64_MIN / 2;

/// Remembers the call stacks of sampled allocations.
template <class H> concept Profiles = requires(H& h, std::size_t n) {
  { h.set_mean(n) } noexcept;
  { h.mean() } noexcept -> std::same_as<std::size_t>;
};

/// Can serve every call as a miss from then on, for whoever must see each block come and go. To be called before a second thread runs.
template <class H> concept Closes = requires(H& h) { { h.close() } noexcept; };

/// Can walk its whole structure and report heap_inconsistent when it contradicts itself. For tests; the heap must be at rest.
template <class H> concept Audits = requires(H& h) { h.audit(); };

/// Can name every block it has given out and not taken back; blocks in caches above it are among them. The heap must be at rest.
template <class H> concept Walks = requires(H& h, void (*each)(Block)) { h.each_live(each); };

/// Keeps a byte for every place where a block may start (shape/block_marks.hpp), for guards.
template <class H> concept Marked = requires(H& h) { h.block_marks(); };
template <class H> using MarksOf = std::remove_reference_t<decltype(std::declval<H&>().block_marks())>;
inline constexpr unsigned kWipes = 16;  ///< a bit beside those of the planes that guards have: released blocks are wiped to their end
template <class H> constexpr unsigned planes_taken() { if constexpr (requires { H::kPlanesTaken; }) return H::kPlanesTaken; else return 0; }

/// Knows, perhaps, where a block was released that it still keeps.
template <class H> concept Remembers = requires(H& h, const std::byte* p) { { h.freed_at(p) } noexcept -> std::same_as<const void*>; };

/// Can say what a forbidden access to an address was about.
template <class H> concept Explains = requires(H& h, const std::byte* p, Crime& c) { { h.explain(p, c) } noexcept -> std::same_as<bool>; };

/// Can look at what this thread has released and the heap still keeps, and at everything that the program holds.
template <class H> concept ChecksWaiting = requires(H& h, typename H::Thread& t) { h.check_waiting(t); };
template <class H> concept ChecksAll = requires(H& h, typename H::Thread& t) { { h.check_all(t) } noexcept -> std::same_as<std::size_t>; };

/// Compares the size and alignment that a delete names with the block's.
template <class H> concept ChecksSizes = requires(H& h, std::byte* p, std::size_t n) { h.check_size(p, n, n); };

/// Can tell at a glance whether a block with a class was asked for with `n` bytes; no when it is not whole.
template <class H> concept KnowsSizes = requires(H& h, Block b, std::size_t n) { { h.has_size(b, n) } noexcept -> std::same_as<bool>; };

/// Releases a hit whose size the program has named: yes when the block was asked for with just that, is whole and has a place; else nothing
/// has happened.
template <class H> concept HitsBySize = Hits<H> && requires(H& h, typename H::Thread& t, Block b, std::size_t n) {
  { h.release_hit_of_size(t, b, n) } noexcept -> std::same_as<bool>;
};

/// Its `release` takes blocks that nobody has measured.
template <class H> inline constexpr bool kTakesUnsizedBlocks = requires { requires H::kTakesUnsized; };

/// Gives blocks that end where the request ended: their size is worth keeping true, and measured only by the heap itself.
template <class H> inline constexpr bool kSizesExactly = requires { requires H::kExactSizes; };

template <class H> concept Tells = requires(H& h, Usage& u) { { h.tell(u) } noexcept -> std::same_as<void>; };

/// Forwards everything. A layer derives from it and shadows what it changes.
/// `below` is public because a layer that routes past another one must reach what lies under it; nobody else does.
template <Heap Below> class Passthrough {
 public:
  using Thread = typename Below::Thread;
  using Classes = typename Below::Classes;
  static constexpr Progress kProgress = Below::kProgress;
  static constexpr bool kExactSizes = kSizesExactly<Below>;
  static constexpr unsigned kPlanesTaken = planes_taken<Below>();
  static constexpr BlockFacts kFacts = facts_of<Below>();
  static constexpr bool kTakesUnsized = kTakesUnsizedBlocks<Below>;
  static constexpr std::size_t kGrowingBytes = kGrowingBytesOf<Below>;

  MORTISE_HOT Block allocate(Thread& t, Request r) noexcept { return below.allocate(t, r); }
  MORTISE_HOT void release(Thread& t, Block b) noexcept { below.release(t, b); }

  MORTISE_HOT bool holds(const std::byte* p) noexcept requires Locates<Below> { return below.holds(p); }
  MORTISE_HOT Block block_of(std::byte* p) noexcept requires Locates<Below> { return below.block_of(p); }
  MORTISE_HOT Block measure(Block b) noexcept requires Locates<Below> { return below.measure(b); }
  auto& page_index() noexcept requires Indexed<Below> { return below.page_index(); }
  const void* freed_at(const std::byte* p) noexcept requires Remembers<Below> { return below.freed_at(p); }
  bool explain(const std::byte* p, Crime& c) noexcept requires Explains<Below> { return below.explain(p, c); }
  void check_waiting(Thread& t) noexcept requires ChecksWaiting<Below> { below.check_waiting(t); }
  std::size_t check_all(Thread& t) noexcept requires ChecksAll<Below> { return below.check_all(t); }
  void check_size(std::byte* p, std::size_t n, std::size_t align) noexcept requires ChecksSizes<Below> { below.check_size(p, n, align); }
  MORTISE_HOT bool has_size(Block b, std::size_t n) noexcept requires KnowsSizes<Below> { return below.has_size(b, n); }
  auto& block_marks() noexcept requires Marked<Below> { return below.block_marks(); }

  unsigned allocate_batch(Thread& t, unsigned c, std::byte** out, unsigned n) noexcept requires Batches<Below> {
    return below.allocate_batch(t, c, out, n);
  }
  void release_batch(Thread& t, unsigned c, std::byte** in, unsigned n) noexcept requires Batches<Below> {
    below.release_batch(t, c, in, n);
  }
  Block resize_in_place(Thread& t, Block b, std::size_t n) noexcept requires Resizes<Below> { return below.resize_in_place(t, b, n); }
  Block resize_by_moving(Thread& t, Block b, std::size_t n) noexcept requires Moves<Below> {
    return below.resize_by_moving(t, b, n);
  }

  void lock_all() noexcept requires HoldsLocks<Below> { below.lock_all(); }
  void unlock_all() noexcept requires HoldsLocks<Below> { below.unlock_all(); }
  void reset_after_fork() noexcept requires HoldsLocks<Below> { below.reset_after_fork(); }
  void attach(Thread& t) noexcept requires Attaches<Below> { below.attach(t); }
  void detach(Thread& t) noexcept requires Attaches<Below> { below.detach(t); }
  std::size_t trim(Thread& t) noexcept requires Trims<Below> { return below.trim(t); }
  std::size_t purge_idle() noexcept requires Purges<Below> { return below.purge_idle(); }
  std::size_t idle_bytes() noexcept requires Purges<Below> { return below.idle_bytes(); }
  void set_purge_ms(std::int64_t ms) noexcept requires Purges<Below> { below.set_purge_ms(ms); }
  std::int64_t purge_ms() noexcept requires Purges<Below> { return below.purge_ms(); }
  bool start(const os::Facts& f) noexcept requires Starts<Below> { return below.start(f); }
  std::byte* meta(std::size_t n) noexcept requires GivesMeta<Below> { return below.meta(n); }
  void close() noexcept requires Closes<Below> { below.close(); }
  void audit() noexcept requires Audits<Below> { below.audit(); }
  template <class Each> void each_live(Each&& each) noexcept requires Walks<Below> { below.each_live(each); }
  bool purge_pages(std::byte* p, std::size_t n) noexcept requires PurgesPages<Below> { return below.purge_pages(p, n); }
  PagesMoved move_pages(std::byte* from, std::byte* to, std::size_t n) noexcept requires MovesPages<Below> {
    return below.move_pages(from, to, n);
  }
  void tell(Usage& u) noexcept requires Tells<Below> { below.tell(u); }
  bool reserve(Thread& t, Reserve r) noexcept requires Reserves<Below> { return below.reserve(t, r); }
  bool read_meter(std::size_t n, std::int64_t& left) noexcept requires Meters<Below> { return below.read_meter(n, left); }
  void set_meter(std::size_t n, std::int64_t left) noexcept requires Meters<Below> { below.set_meter(n, left); }
  void set_limit_bytes(std::size_t n) noexcept requires Limits<Below> { below.set_limit_bytes(n); }
  std::size_t limit_bytes() noexcept requires Limits<Below> { return below.limit_bytes(); }
  std::size_t taken_bytes() noexcept requires Limits<Below> { return below.taken_bytes(); }
  bool charge(std::size_t n, bool must) noexcept requires Charges<Below> { return below.charge(n, must); }
  void uncharge(std::size_t n) noexcept requires Charges<Below> { below.uncharge(n); }
  bool charge_beside(std::size_t n) noexcept requires ChargesBeside<Below> { return below.charge_beside(n); }
  void uncharge_beside(std::size_t n) noexcept requires ChargesBeside<Below> { below.uncharge_beside(n); }
  bool see_resident_bytes(std::size_t& n) noexcept requires SeesResidency<Below> { return below.see_resident_bytes(n); }
  void release_part(Thread& t, Block b) noexcept requires ReleasesParts<Below> { below.release_part(t, b); }
  void set_soft_limit_bytes(std::size_t n) noexcept requires Yields<Below> { below.set_soft_limit_bytes(n); }
  bool is_pressed() noexcept requires Yields<Below> { return below.is_pressed(); }
  void set_huge_pages(HugePages p) noexcept requires AdvisesHuge<Below> { below.set_huge_pages(p); }

  [[no_unique_address]] Below below;
};

// What a layer with a capability of its own does for the rest of the stack: call below where below has it too.
template <class H> void lock_below(H& h) noexcept { if constexpr (HoldsLocks<H>) h.lock_all(); }
template <class H> void unlock_below(H& h) noexcept { if constexpr (HoldsLocks<H>) h.unlock_all(); }
template <class H> void reset_below(H& h) noexcept { if constexpr (HoldsLocks<H>) h.reset_after_fork(); }
template <class H> void attach_below(H& h, typename H::Thread& t) noexcept { if constexpr (Attaches<H>) h.attach(t); }
template <class H> void detach_below(H& h, typename H::Thread& t) noexcept { if constexpr (Attaches<H>) h.detach(t); }
template <class H> std::size_t trim_below(H& h, typename H::Thread& t) noexcept {
  if constexpr (Trims<H>) return h.trim(t);
  return 0;
}
template <class H> MORTISE_HOT Block hit_below(H& h, typename H::Thread& t, Request r) noexcept {
  if constexpr (Hits<H>) return h.allocate_hit(t, r);
  return {};
}
template <class H> MORTISE_HOT bool hit_below(H& h, typename H::Thread& t, std::byte* p) noexcept {
  if constexpr (Hits<H>) return h.release_hit(t, h.block_of(p));
  return false;
}
template <class H> Block resize_below(H& h, typename H::Thread& t, Block b, std::size_t n) noexcept {
  if constexpr (Resizes<H>) return h.resize_in_place(t, b, n);
  return {};
}
template <class H> Block move_below(H& h, typename H::Thread& t, Block b, std::size_t n) noexcept {
  if constexpr (Moves<H>) return h.resize_by_moving(t, b, n);
  return {};
}
template <class H> std::size_t purge_below(H& h) noexcept {
  if constexpr (Purges<H>) return h.purge_idle();
  return 0;
}
template <class H> std::size_t idle_bytes_below(H& h) noexcept {
  if constexpr (Purges<H>) return h.idle_bytes();
  return 0;
}
template <class H> std::int64_t purge_ms_below(H& h) noexcept {
  if constexpr (Purges<H>) return h.purge_ms();
  return -1;
}
template <class H> void set_purge_ms_below(H& h, std::int64_t ms) noexcept {
  if constexpr (Purges<H>) h.set_purge_ms(ms);
}
template <class H> bool start_below(H& h, const os::Facts& f) noexcept {
  if constexpr (Starts<H>) return h.start(f);
  return true;
}
/// What may still be taken; 0 where nobody counts.
template <class H> std::size_t room_below(H& h) noexcept {
  if constexpr (Limits<H>) return h.limit_bytes() > h.taken_bytes() ? h.limit_bytes() - h.taken_bytes() : 0;
  return 0;
}
template <class H> bool pressed_below(H& h) noexcept {
  if constexpr (Yields<H>) return h.is_pressed();
  return false;
}
template <class H> void set_huge_pages_below(H& h, HugePages p) noexcept {
  if constexpr (AdvisesHuge<H>) h.set_huge_pages(p);
}
template <class H> void tell_below(H& h, Usage& u) noexcept { if constexpr (Tells<H>) h.tell(u); }

}  // namespace mortise
