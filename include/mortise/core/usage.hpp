// What a heap holds: summed over its layers when somebody asks, free when nobody does.
//
// Each layer adds what it knows (`tell`): the source what it mapped, a backbone what it handed out, a cache what of that it keeps.
// A cache keeps blocks that the backbone below believes to be live, so it moves them from `live` to `cached`.
// Tables by size class and by core are filled in when the reader brings them.
#pragma once

#include <cstddef>

namespace mortise {

/// One size class; where classes have colours, all colours of it: a slab may change its colour under blocks that caches keep. Counts are
/// blocks.
struct ClassUsage {
  std::size_t block_bytes = 0;
  std::size_t live = 0;        ///< held by the program
  std::size_t cached = 0;      ///< free, in caches of cores or threads
  std::size_t waiting = 0;     ///< free, in batches between cores
  std::size_t spans = 0;       ///< slabs
  std::size_t span_bytes = 0;
};

/// The cache of one core (or of one thread, where threads have caches).
struct CacheUsage {
  std::size_t blocks = 0;
  std::size_t bytes = 0;
};

struct Usage {
  std::size_t mapped = 0;    ///< address space taken from the source
  std::size_t live = 0;      ///< in blocks the program holds
  std::size_t cached = 0;    ///< in free blocks kept by caches
  std::size_t dirty = 0;     ///< in free spans whose pages are still resident
  std::size_t purged = 0;    ///< in free spans whose pages went back to the system
  std::size_t meta = 0;      ///< bookkeeping
  std::size_t large = 0;     ///< part of `live` that is in large blocks
  std::size_t large_count = 0;
  std::size_t grown = 0;     ///< how often a reserve did not serve a request: exhausted, or not meant for its size
  std::size_t limit = 0;         ///< the most that may be mapped; 0: none is set
  std::size_t soft_limit = 0;    ///< above it the heap keeps less for later; 0: none is set
  std::size_t refused = 0;       ///< how often the limit refused memory
  std::byte* window = nullptr;   ///< the addresses that `mapped` lies in, holes included
  std::size_t window_bytes = 0;

  ClassUsage* classes = nullptr;  ///< the reader's table, by class number; null: not wanted
  unsigned classes_max = 0;
  CacheUsage* caches = nullptr;   ///< the reader's table, by core
  unsigned caches_max = 0;

  void in_slabs(unsigned c, std::size_t block_bytes, std::size_t blocks, std::size_t spans, std::size_t span_bytes) noexcept {
    live += blocks * block_bytes;
    cached += span_bytes - blocks * block_bytes;
    if (ClassUsage* k = of_class(c)) {
      k->block_bytes = block_bytes;
      k->live += blocks;
      k->spans += spans;
      k->span_bytes += span_bytes;
    }
  }
  void in_cache(unsigned core, unsigned c, std::size_t block_bytes, std::size_t blocks) noexcept {
    move_to_cache(blocks * block_bytes);
    if (ClassUsage* k = of_class(c)) {
      k->live -= blocks;
      k->cached += blocks;
    }
    if (caches && core < caches_max) {
      caches[core].blocks += blocks;
      caches[core].bytes += blocks * block_bytes;
    }
  }
  /// Blocks without a size class that wait somewhere: `bytes` of them.
  void move_to_cache(std::size_t bytes) noexcept {
    cached += bytes;
    live -= bytes;
  }
  void in_transit(unsigned c, std::size_t block_bytes, std::size_t blocks) noexcept {
    move_to_cache(blocks * block_bytes);
    if (ClassUsage* k = of_class(c)) {
      k->live -= blocks;
      k->waiting += blocks;
    }
  }
  /// Large blocks of what is below that a layer carves up itself: `count` of them, `bytes` in all.
  void carved(std::size_t bytes, std::size_t count) noexcept {
    move_to_cache(bytes);
    large -= bytes;
    large_count -= count;
  }
  /// Blocks of the program's that lie there, of class `c`.
  void in_carved(unsigned c, std::size_t block_bytes, std::size_t blocks) noexcept {
    live += blocks * block_bytes;
    cached -= blocks * block_bytes;
    if (ClassUsage* k = of_class(c)) k->live += blocks;
  }
  /// Told by a source whose memory lies between `from` and `from + bytes`.
  void in_window(std::byte* from, std::size_t bytes) noexcept {
    window = from;
    window_bytes = bytes;
  }

 private:
  ClassUsage* of_class(unsigned c) noexcept { return classes && c < classes_max ? &classes[c] : nullptr; }
};

/// Layers are asked one after the other while blocks and spans move between them: a difference may come out below zero, a sum above the
/// whole. So much is put right; false where it were the sums of all that came out below zero.
inline bool settle(Usage& u) noexcept {
  const auto is_below_zero = [](std::size_t n) { return n > ~std::size_t{0} / 2; };
  const bool is_whole = !is_below_zero(u.live) && !is_below_zero(u.large);
  u.live = is_below_zero(u.live) ? 0 : u.live > u.mapped ? u.mapped : u.live;
  u.large = is_below_zero(u.large) ? 0 : u.large > u.live ? u.live : u.large;
  for (unsigned c = 0; u.classes && c < u.classes_max; ++c)
    if (is_below_zero(u.classes[c].live)) u.classes[c].live = 0;
  return is_whole;
}

/// Fills `u` by `read(u)`, again up to four times where that came in the middle of a change as large as what is there: caches that were
/// just emptied, and fill.
template <class Read> void read_whole(Usage& u, Read&& read) noexcept {
  for (unsigned times = 5; times; --times) {
    u = {};
    read(u);
    if (settle(u)) return;
  }
}

}  // namespace mortise
