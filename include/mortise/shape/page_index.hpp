// From a pointer to the span it lies in: three tables indexed by the granule's number.
//
//   pointer ─ origin ─► granule number g ──► class_map[g]   1 byte: size class, for the hit path of free
//                                      ├──► spans[g]       64 bytes: the span's descriptor
//                                      └──► bits[g]        512 bytes: which blocks of a slab are free
//
// The tables grow with the heap and are memory only where the heap is. Nothing of the allocator's lies next to the program's
// blocks, so an overflow cannot reach it, and the pages of free blocks can go back to the system.
//
// Progress: lookups wait-free, growth blocking. Source: page maps as in [Ghemawat05] tcmalloc; one flat load because the
// source promises one window of addresses.
// Placement: directly above a source that promises such a window (Contiguous); below everything that asks for spans.
#pragma once

#include <bit>
#include <cstring>

#include "mortise/core/core.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/sync/atomics.hpp"
#include "mortise/sync/fork_attempt.hpp"
#include "mortise/sync/futex_lock.hpp"

namespace mortise {

enum class SpanState : std::uint8_t {
  none,   ///< not a span (a hole, or the inside of one)
  large,  ///< one block of the program
  slab,   ///< carved into blocks of one class
  dirty,  ///< free, its pages perhaps resident
  clean,  ///< free, reads as zero when touched
};

/// A field that its owner writes under its own lock while a neighbour glances at it under another one. Relaxed: what the
/// neighbour sees decides something only when it was written under the neighbour's lock too.
template <class T> class Glanced {
 public:
  Glanced& operator=(const Glanced&) = delete;
  operator T() const noexcept { return value_.load(Order::relaxed); }
  Glanced& operator=(T value) noexcept {
    value_.store(value, Order::relaxed);
    return *this;
  }

 private:
  Atomic<T> value_;
};

/// A run of granules. The descriptors of its first and last granule are kept true always, those between only for slabs.
/// Owned by the layer that its state names, and written under that layer's lock.
struct Span {
  Span* next;
  Span* prev;
  Glanced<std::uint32_t> head;  ///< number of the first granule; every granule of a slab knows it
  std::uint32_t granules;
  std::uint32_t capacity;   ///< slab: how many blocks
  std::uint32_t free;       ///< slab: how many of them are not in use
  std::uint32_t bump;       ///< slab: blocks from here on were never handed out
  std::uint16_t hint;       ///< slab: no bit is set in words before this one
  Glanced<std::uint8_t> size_class;
  Glanced<SpanState> state;
  union {
    std::uint64_t since_ms;      ///< free: when it became so
    std::uint32_t per_capacity;  ///< slab: 2^32 over its capacity, rounded down
  };
  std::uint8_t bin;         ///< slab: which of its class's lists it is in
  std::uint8_t purged_in;   ///< slab: the purge era in which the pages inside free blocks went back; 0: some were released since
  std::uint16_t tail_pages : 15;      ///< large: so many times 4 KiB at its end are not the block's
  std::uint16_t is_tail_counted : 1;  ///< and count against a limit
  std::uint32_t owner;      ///< leased (heaps/span_lease.hpp): to whom, and its neighbours in that list; 0: nobody
  std::uint32_t owner_next, owner_prev;
};
static_assert(sizeof(Span) == 64, "a descriptor is one cache line");

/// A source whose blocks all lie in one window of addresses, with room for tables beside it. Its memory reads as zero each time
/// it is given out.
template <class S>
concept Contiguous = Heap<S> && requires(S& s, std::byte* p, std::size_t n) {
  { S::kGranule } -> std::convertible_to<std::size_t>;
  { S::kReach } -> std::convertible_to<std::size_t>;
  { s.origin() } noexcept -> std::same_as<std::byte*>;
  { s.side(n) } noexcept -> std::same_as<std::byte*>;
  { s.back_side(p, n) } noexcept -> std::same_as<bool>;
};

/// Gives spans of the page index that it stands on, and knows no size classes.
template <class H> concept GivesSpans = Indexed<H> && !Classed<H> && facts_of<H>().spans != Spans::none;

struct PageIndex {
  static constexpr const char* kName = "PageIndex";
  static constexpr const char* kWhat = "pointer to span in one load: class map, descriptors and bitmaps by granule number";
  static constexpr const char* kNeeds = "a source with one window of addresses directly below (MmapHeap, BrkHeap, StaticHeap)";
  template <class Out> static void describe(Out& out) { out.layer(kName, kWhat).number("descriptor_bytes", sizeof(Span)); }

  template <Contiguous Below> class Over : public Passthrough<Below> {
   public:
    using typename Passthrough<Below>::Thread;
    static constexpr BlockFacts kFacts = facts_of<Below>().with(Spans::fresh);
    static constexpr std::size_t kGranule = Below::kGranule;
    static constexpr std::size_t kReachBytes = Below::kReach;
    static constexpr unsigned kGranuleLog2 = log2_floor(kGranule);
    static constexpr std::size_t kBitsPerSpan = kGranule / kMinAlign;  // the most blocks a one-granule slab can have
    static constexpr std::size_t kBitmapBytes = kBitsPerSpan / 8;
    static_assert(kGranule >= 1_KiB, "PageIndex: granules of 1 KiB at least (granule_bytes): a bitmap is whole words");

    /// Whether there could be such a block at all. Nobody empties caches for one that there cannot.
    static constexpr bool reaches(Request r) noexcept { return r.size <= kReachBytes && r.align <= kReachBytes; }

    bool start(const os::Facts& facts) noexcept {
      if (!start_below(this->below, facts)) return false;
      Held held(lock_);
      if (origin_) return true;
      constexpr std::size_t granules = Below::kReach / kGranule;
      class_map_.at = this->below.side(round_up(granules, kStep));
      spans_.at = this->below.side(round_up(granules * sizeof(Span), kStep));
      bits_.at = this->below.side(round_up(granules * kBitmapBytes, kStep));
      if (!class_map_.at || !spans_.at || !bits_.at) return false;
      origin_ = this->below.origin();
      return true;
    }

    /// Fresh granules from the source, as one large span.
    Block allocate(Thread& t, Request r) noexcept {
      if (r.size > Below::kReach) return {};
      r.size = round_up(r.size ? r.size : 1, kGranule);
      const Block b = this->below.allocate(t, r);
      if (!b) return {};
      if (!cover(number_of(b.end() - 1) + 1)) {
        this->below.release(t, b);
        return {};
      }
      set_span(number_of(b.ptr), static_cast<std::uint32_t>(b.size >> kGranuleLog2), SpanState::large);
      return {b.ptr, b.size, kNoClass};
    }

    void release(Thread& t, Block b) noexcept { this->below.release(t, forget(b)); }
    void release_part(Thread& t, Block b) noexcept requires ReleasesParts<Below> { this->below.release_part(t, forget(b)); }

    MORTISE_HOT bool holds(const std::byte* p) const noexcept { return static_cast<std::size_t>(p - origin_) < glance(extent_); }

    /// Where `p` lies: so many times kMinAlign from the heap's start. What `holds_place` of it says no to is no place of a block: it
    /// lies outside, or between two places.
    MORTISE_HOT std::size_t place_of(const std::byte* p) const noexcept {
      return std::rotr(static_cast<std::size_t>(p - origin_), log2_floor(kMinAlign));
    }
    MORTISE_HOT bool holds_place(std::size_t place) const noexcept { return place < glance(places_); }

    /// The block at `p`, which `holds`: its class from the class map; unsized when it is a large one.
    MORTISE_HOT Block block_of(std::byte* p) const noexcept {
      return {p, 0, class_at(p)};
    }
    MORTISE_HOT std::uint8_t class_at(const std::byte* p) const noexcept {
      return glance(reinterpret_cast<const std::uint8_t*>(class_map_.at)[static_cast<std::size_t>(p - origin_) >> kGranuleLog2]);
    }

    /// The same with its size. Reports invalid_free for a pointer into memory that no span covers.
    Block measure(Block b) noexcept {
      Span* s = &spans()[number_of(b.ptr)];
      MORTISE_CHECK(s->state == SpanState::large && base_of(s) == b.ptr, Fault::invalid_free, b);
      return {b.ptr, used_bytes_of(s), kNoClass};
    }

    // -- for the layers that manage spans; under their locks

    Over& page_index() noexcept { return *this; }

    std::uint32_t number_of(const std::byte* p) const noexcept {
      return static_cast<std::uint32_t>(static_cast<std::size_t>(p - origin_) >> kGranuleLog2);
    }
    Span* spans() const noexcept { return reinterpret_cast<Span*>(spans_.at); }
    Span* span_of(const std::byte* p) const noexcept { return &spans()[spans()[number_of(p)].head]; }
    std::byte* granule_at(std::uint32_t number) const noexcept { return origin_ + (std::size_t{number} << kGranuleLog2); }
    std::byte* base_of(const Span* s) const noexcept { return origin_ + (std::size_t{s->head} << kGranuleLog2); }
    static std::size_t bytes_of(const Span* s) noexcept { return std::size_t{s->granules} << kGranuleLog2; }
    /// The same without its tail: what whoever has the span may touch.
    static std::size_t used_bytes_of(const Span* s) noexcept { return bytes_of(s) - s->tail_pages * 4_KiB; }
    std::uint64_t* bits_of(const Span* s) const noexcept { return bits_at(s->head); }
    MORTISE_HOT std::uint64_t* bits_at(std::uint32_t number) const noexcept {
      return reinterpret_cast<std::uint64_t*>(bits_.at + std::size_t{number} * kBitmapBytes);
    }
    /// Whether `p`, which `holds` and of which no class is known, may be where a block was that is free now: a granule starts there, inside
    /// no large block and no slab. Inside spans nothing is kept: the way goes back to where one starts. O(granules): for reports.
    bool is_free_at(const std::byte* p) const noexcept {
      const std::uint32_t at = number_of(p);
      const Span* s = &spans()[at];
      while (s->state == SpanState::none && s > spans()) --s;
      const bool is_used = s->state == SpanState::large || s->state == SpanState::slab;
      return granule_at(at) == p && !(is_used && at - s->head < spans()[s->head].granules);
    }
    /// Granules that the tables reach: for whoever walks them all, under any lock or none.
    std::uint32_t covered() const noexcept { return covered_.load(Order::acquire); }

    /// What was purged in an earlier era may be there again: the kernel made huge pages of it. 1..255, round and round. Any thread.
    std::uint8_t purge_era() const noexcept { return static_cast<std::uint8_t>(eras_.load(Order::relaxed) % 255 + 1); }
    void begin_purge_era() noexcept { eras_.fetch_add(1, Order::relaxed); }

    /// Makes granules [head, head + n) a span, its two ends true.
    Span* set_span(std::uint32_t head, std::uint32_t granules, SpanState state) noexcept {
      Span& first = spans()[head];
      Span& last = spans()[head + granules - 1];
      first.head = head;
      first.state = state;
      last.head = head;
      last.state = state;
      first.granules = granules;
      return &first;
    }
    /// Tells every granule of a slab its head, and the first `with_blocks` its class: what has one may be read, which a wall may not.
    void set_class(Span* s, unsigned size_class, std::uint32_t with_blocks) noexcept {
      const std::uint32_t head = s->head;
      for (std::uint32_t i = 0; i < s->granules; ++i) spans()[head + i].head = head;
      // Relaxed: free() may be reading the class of a block whose span changes its colour. Both values are right ones.
      auto* const classes = reinterpret_cast<std::uint8_t*>(class_map_.at) + head;
      for (std::uint32_t i = 0; i < with_blocks; ++i)
        __atomic_store_n(classes + i, static_cast<std::uint8_t>(size_class), __ATOMIC_RELAXED);
    }

    void set_class(Span* s, unsigned size_class) noexcept { set_class(s, size_class, s->granules); }

    /// The same for granules [head, head + n) that have known their head since they are a slab. Writes only what is another class.
    void change_class(std::uint32_t head, std::uint32_t granules, unsigned size_class) noexcept {
      auto* const classes = reinterpret_cast<std::uint8_t*>(class_map_.at) + head;
      for (std::uint32_t i = 0; i < granules; ++i)
        if (__atomic_load_n(classes + i, __ATOMIC_RELAXED) != size_class)
          __atomic_store_n(classes + i, static_cast<std::uint8_t>(size_class), __ATOMIC_RELAXED);
    }

    /// The bitmaps of the first `granules` can be touched, wherever the heap ends. False when the system refuses.
    bool back_bits(std::uint32_t granules) noexcept {
      Held held(lock_);
      return granules <= kReachBytes / kGranule && back(bits_, std::size_t{granules} * kBitmapBytes);
    }

    /// Asks for the line that `change_class` will write.
    void ask_for_class(std::uint32_t head) const noexcept { prefetch_to_write(class_map_.at + head); }

    /// The same for a slab that ends, in as few steps as can be: its granules have no class.
    void forget_class(Span* s) noexcept { std::memset(class_map_.at + s->head, kNoClass, s->granules); }

    void lock_all() noexcept {
      hold(lock_);
      lock_below(this->below);
    }
    void unlock_all() noexcept {
      unlock_below(this->below);
      let_go(lock_);
    }
    void reset_after_fork() noexcept {
      lock_.reset();
      reset_below(this->below);
    }

   private:
    static constexpr std::size_t kStep = kGranule < 64_KiB ? kGranule : 64_KiB;  // tables grow by this much at least
    struct Table {
      std::byte* at = nullptr;
      std::size_t backed = 0;
    };

    /// The span at `b` is none any more.
    Block forget(Block b) noexcept {
      Span* s = span_of(b.ptr);
      spans()[s->head + s->granules - 1].state = SpanState::none;
      s->state = SpanState::none;
      return {b.ptr, bytes_of(s), kNoClass};
    }
    bool back(Table& table, std::size_t bytes) noexcept {
      bytes = round_up(bytes, kStep);
      if (bytes <= table.backed) return true;
      if (!this->below.back_side(table.at + table.backed, bytes - table.backed)) return false;
      table.backed = bytes;
      return true;
    }
    /// Sees to it that the tables reach granule number `end`.
    bool cover(std::uint32_t end) noexcept {
      Held held(lock_);
      if (end <= covered_.load(Order::relaxed)) return true;
      if (!back(class_map_, end) || !back(spans_, end * sizeof(Span)) || !back(bits_, end * kBitmapBytes)) return false;
      covered_.store(end, Order::release);
      // Whoever asks about a block got it after this; read without the lock in holds().
      __atomic_store_n(&extent_, std::size_t{end} << kGranuleLog2, __ATOMIC_RELAXED);
      __atomic_store_n(&places_, (std::size_t{end} << kGranuleLog2) / kMinAlign, __ATOMIC_RELAXED);
      return true;
    }

    // The first line is what free() reads: all of it, and nothing that others write.
    alignas(64) std::byte* origin_ = nullptr;
    std::size_t extent_ = 0, places_ = 0;
    Table class_map_;
    Table spans_;
    Table bits_;
    FutexLock lock_;
    Atomic<std::uint32_t> covered_{0};
    Atomic<std::uint32_t> eras_{0};
  };
};

}  // namespace mortise
