// The Fit slot of backbones: which of the spans (or free blocks) that could serve is taken?
#pragma once

#include <cstddef>
#include <cstdint>

namespace mortise::fit {

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

// -- for backbones that keep free chunks in a tree (data/treap.hpp). `Of<Chunk>` holds the order of the tree and the search.

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
}  // namespace detail

/// The lowest address that fits.
struct FirstFit {
  static constexpr const char* kName = "FirstFit";
  static constexpr bool kTracksLargest = true;
  template <class Chunk> struct Of {
    using Order = detail::ByAddress<Chunk>;
    template <class Tree> Chunk* find(const Tree& tree, std::size_t bytes) noexcept { return tree.first_of_weight(bytes); }
  };
};

/// The lowest address that fits, from where the last search ended; round again from the start.
struct NextFit {
  static constexpr const char* kName = "NextFit";
  static constexpr bool kTracksLargest = true;
  template <class Chunk> struct Of {
    using Order = detail::ByAddress<Chunk>;
    template <class Tree> Chunk* find(const Tree& tree, std::size_t bytes) noexcept {
      Chunk* c = tree.first_of_weight_from(bytes, last_);
      if (!c) c = tree.first_of_weight(bytes);
      if (c) last_ = c;
      return c;
    }

   private:
    const Chunk* last_ = nullptr;  // compared, never followed: the chunk there may be gone
  };
};

/// The smallest that fits; the lowest address among equals.
struct BestFit {
  static constexpr const char* kName = "BestFit";
  static constexpr bool kTracksLargest = false;
  template <class Chunk> struct Of {
    using Order = detail::BySize<Chunk>;
    template <class Tree> Chunk* find(const Tree& tree, std::size_t bytes) noexcept {
      return tree.lower_bound([bytes](const Chunk* c) { return c->size() >= bytes; });
    }
  };
};

}  // namespace mortise::fit
