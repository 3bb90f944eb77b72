// Mappings that a program has unmapped, kept for its next mmap of the same size: no kernel call, no page fault.
//
//   entries: ┌──────────────┬──────────────┬─────┐    newest last; a request takes the newest of exactly its size,
//            │ low, pages   │ low, pages   │ ... │    because its lines are the likeliest to be in the core's cache
//            └──────────────┴──────────────┴─────┘
//
// 1. take: the newest entry of this size, whose contents are whatever they were: the caller clears it.
// 2. put: remembers a mapping, and hands back the oldest one when there are too many, for the caller to unmap. Clearing a
//    warm megabyte costs a tenth of faulting it in again page by page, so mappings up to kMappingBytesMax are worth keeping;
//    larger ones are not.
//
// Bound: O(entries kept), at most kEntriesMax. Progress: none of its own - not synchronised; whoever owns it has the lock.
// Placement: not a layer; used where mmap and munmap themselves are served (isolate/, libmortise-mapcache.so).
#pragma once

#include <cstddef>
#include <cstdint>

namespace mortise {

/// All zero is a valid empty cache.
template <unsigned kEntriesMax = 64, std::size_t kBytesMax = 32u << 20> class MapCache {
 public:
  static constexpr std::size_t kMappingBytesMax = 1u << 20;
  struct Mapping {
    std::uintptr_t low = 0;
    std::size_t bytes = 0;
    explicit operator bool() const noexcept { return bytes != 0; }
  };

  /// A mapping of exactly `bytes`, not cleared; or an empty one.
  Mapping take(std::size_t bytes) noexcept {
    for (unsigned i = count_; i-- > 0;)
      if (entries_[i].bytes == bytes) return remove(i);
    return {};
  }

  /// Keeps `m`. Returns what is to be unmapped instead: an empty mapping, an older one, or `m` itself when it is too large.
  Mapping put(Mapping m) noexcept {
    if (m.bytes > kMappingBytesMax) return m;
    Mapping out;
    if (count_ == kEntriesMax || kept_ + m.bytes > kBytesMax) out = count_ ? remove(0) : m;
    if (out.low == m.low) return m;
    entries_[count_++] = m;
    kept_ += m.bytes;
    return out;
  }

  /// The oldest mapping, or an empty one: to empty the cache one by one.
  Mapping take_oldest() noexcept { return count_ ? remove(0) : Mapping{}; }

  /// A mapping that [low, low + bytes) touches, or an empty one: what the program names again must not be handed out.
  Mapping take_touching(std::uintptr_t low, std::size_t bytes) noexcept {
    for (unsigned i = 0; i < count_; ++i)
      if (entries_[i].low < low + bytes && low < entries_[i].low + entries_[i].bytes) return remove(i);
    return {};
  }

  std::size_t kept_bytes() const noexcept { return kept_; }

 private:
  Mapping remove(unsigned i) noexcept {
    const Mapping m = entries_[i];
    for (--count_; i < count_; ++i) entries_[i] = entries_[i + 1];
    kept_ -= m.bytes;
    return m;
  }

  Mapping entries_[kEntriesMax]{};
  unsigned count_ = 0;
  std::size_t kept_ = 0;
};

}  // namespace mortise
