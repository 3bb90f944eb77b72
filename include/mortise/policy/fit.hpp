// The Fit slot of backbones: which of the spans (or free blocks) that could serve is taken?
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "mortise/data/treap.hpp"
#include "mortise/data/two_level_lists.hpp"

namespace mortise::fit {

/// Chooses among the spans of a slab that have room: `kBins` lists, searched in order; `bin_of` says where a span belongs.
template <class F>
concept SpanFit = requires(unsigned free, std::uint32_t reciprocal) {
  { F::kBins } -> std::convertible_to<unsigned>;
  { F::bin_of(free, reciprocal) } -> std::same_as<unsigned>;
};

/// The span with the fewest free blocks: others get the chance to become empty and go back. Costs a move between lists when a
/// span crosses a quarter of its capacity.
struct FullestFirst {
  static constexpr const char* kName = "FullestFirst";
  static constexpr unsigned kBins = 4;
  /// The list for a span with `free` blocks free; lists are searched from 0 up. `reciprocal` is 2^32 over its capacity, rounded
  /// down: a multiplication where a division would cost more than the rest of a release.
  static unsigned bin_of(unsigned free, std::uint32_t reciprocal) noexcept {
    return static_cast<unsigned>(std::uint64_t{free - 1} * reciprocal * kBins >> 32);
  }
};

/// The span that was used last: one list, no moves, warm in the cache; fragments more.
struct LatestFirst {
  static constexpr const char* kName = "LatestFirst";
  static constexpr unsigned kBins = 1;
  static unsigned bin_of(unsigned, std::uint32_t) noexcept { return 0; }
};

// -- for backbones with boundary tags. `FreeSet<Chunk>` keeps the free chunks and finds one: insert, remove, find, each, is_sound.

namespace detail {
template <class Chunk> struct ByAddress {
  using Node = Chunk;
  static constexpr bool kTracksLargest = true;
  static bool before(const Chunk* a, const Chunk* b) noexcept { return a < b; }
  static std::size_t weight(const Chunk* c) noexcept { return c->size(); }
};
template <class Chunk> struct BySize {
  using Node = Chunk;
  static constexpr bool kTracksLargest = false;
  static bool before(const Chunk* a, const Chunk* b) noexcept {
    return a->size() != b->size() ? a->size() < b->size() : a < b;
  }
  static std::size_t weight(const Chunk* c) noexcept { return c->size(); }
};
/// Stands for a backbone's chunk where only its size matters.
struct AnyChunk {
  std::size_t tag;
  AnyChunk *left, *right;
  std::size_t largest;
  std::size_t size() const noexcept { return tag; }
  std::byte* bytes() noexcept { return reinterpret_cast<std::byte*>(this) + sizeof tag; }
};
}  // namespace detail

/// Keeps the free chunks of a backbone and finds one that is large enough.
template <class F>
concept ChunkFit = requires { typename F::template FreeSet<detail::AnyChunk>; };

/// The lowest address that fits. O(log n) expected.
struct FirstFit {
  static constexpr const char* kName = "FirstFit";
  template <class Chunk> struct FreeSet : Treap<detail::ByAddress<Chunk>> {
    static constexpr std::size_t kChunkMin = 48;
    Chunk* find(std::size_t bytes) noexcept { return this->first_of_weight(bytes); }
  };
};

/// The lowest address that fits, from where the last search ended; round again from the start. O(log n) expected.
struct NextFit {
  static constexpr const char* kName = "NextFit";
  template <class Chunk> struct FreeSet : Treap<detail::ByAddress<Chunk>> {
    static constexpr std::size_t kChunkMin = 48;
    Chunk* find(std::size_t bytes) noexcept {
      Chunk* c = this->first_of_weight_from(bytes, last_);
      if (!c) c = this->first_of_weight(bytes);
      if (c) last_ = c;
      return c;
    }

   private:
    const Chunk* last_ = nullptr;  // compared, never followed: the chunk there may be gone
  };
};

/// The smallest that fits; the lowest address among equals. O(log n) expected.
struct BestFit {
  static constexpr const char* kName = "BestFit";
  template <class Chunk> struct FreeSet : Treap<detail::BySize<Chunk>> {
    static constexpr std::size_t kChunkMin = 32;
    Chunk* find(std::size_t bytes) noexcept {
      return this->lower_bound([bytes](const Chunk* c) { return c->size() >= bytes; });
    }
  };
};

/// The first of the next larger step of sizes: at most a sixteenth larger than asked. O(1).
struct GoodFit {
  static constexpr const char* kName = "GoodFit";
  template <class Chunk> using FreeSet = TwoLevelLists<Chunk>;
};

/// The same, and its links cannot be read or written by whoever still writes into free chunks: a write shows when the chunk is taken.
struct EncodedGoodFit {
  static constexpr const char* kName = "EncodedGoodFit";
  template <class Chunk> using FreeSet = TwoLevelLists<Chunk, links::Encoded>;
};

}  // namespace mortise::fit
