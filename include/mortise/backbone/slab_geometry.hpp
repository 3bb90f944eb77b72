// How slabs are cut: span length, block count and the division that finds a block's number. Static facts, no state.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "mortise/core/core.hpp"

namespace mortise {

/// For each class of `Classes`, over granules of `kGranule` bytes: small blocks get one granule, larger ones as many as hold
/// eight blocks (four above 32 KiB). Pages that are never touched cost nothing, but a huge page has none such: the first span of a class
/// holds two blocks, for all that a program may want. A class that has many gets longer ones, which cost one way to the layer below and
/// back for more blocks: the length doubles with every fourth span, up to 64 blocks or 1 MiB.
template <SizeMap Classes, std::size_t kGranule> struct SlabGeometry {
  static constexpr std::size_t span_bytes(unsigned c) noexcept { return std::size_t{kFacts[c].granules} * kGranule; }
  static constexpr unsigned capacity(unsigned c) noexcept { return kFacts[c].capacity; }
  /// Length of the next span of a class that has so many.
  static constexpr std::size_t span_bytes(unsigned c, std::size_t spans) noexcept {
    const std::size_t full = span_bytes(c), first = round_up(2 * Classes::size_of(c), kGranule);
    if (!spans) return full < first ? full : first;
    const std::size_t doublings = spans / kSpansAlike;
    const std::size_t blocks = std::size_t{capacity(c)} << (doublings < kFacts[c].doublings_max ? doublings : kFacts[c].doublings_max);
    return round_up(blocks * Classes::size_of(c), kGranule);
  }

  /// Number of the block of class `c` that byte `offset` of its span lies in: a multiplication and a shift.
  static constexpr unsigned index_of(unsigned c, std::size_t offset) noexcept {
    return static_cast<unsigned>(offset * kFacts[c].reciprocal >> kShift);
  }

  /// Number of the block that a span of class `c` hands out first; those before it come last. Were it 0 everywhere, the first blocks of
  /// all classes, those that programs with few blocks use, would have their low twelve bits in common: they would compete for the same
  /// sets of a cache, and a load would wait for each store that looks like one to its own address. So spans start at one of sixteen
  /// lines ("slab colouring" in [Bonwick94]; here cores have colours).
  static constexpr unsigned first_of(unsigned c, std::uint32_t granule) noexcept {
    constexpr unsigned kStarts = 16, kLine = 64;
    static_assert(kStarts * kLine <= kGranule && kStarts * kLine / kMinAlign <= 64, "they lie in the bitmap's first word");
    return index_of(c, (granule * 5 + c) % kStarts * kLine);
  }

  /// A block's number, and what the division left over, not quite in proportion.
  struct Place {
    std::size_t index;
    std::uint64_t part;
  };
  /// What a run of divisions by one class's size needs.
  struct Cut {
    std::size_t size;
    std::uint64_t reciprocal;
    Place place_of(std::size_t offset) const noexcept { return {offset * reciprocal >> kShift, offset * reciprocal}; }
  };
  /// Whether any of the `parts`, or-ed together, is that of an offset inside a block, not at its start. The reciprocal is rounded up
  /// by less than 1: at the start of a block the low bits are below the span's length, one byte further above 2^kShift / size.
  static constexpr bool is_inside(std::uint64_t parts) noexcept { return parts & ((std::uint64_t{1} << kShift) - kInside); }
  static constexpr Cut cut_of(unsigned c) noexcept { return {Classes::size_of(c), kFacts[c].reciprocal}; }

 private:
  static constexpr std::size_t kSpansAlike = 4, kBlocksWanted = 64, kSpanBytesMax = 1_MiB;
  static constexpr unsigned kShift = 40;
  static constexpr std::uint64_t kInside = std::bit_ceil((std::uint64_t{1} << kShift) / Classes::kMaxBytes) / 2;
  struct Facts {
    std::uint64_t reciprocal;
    std::uint32_t granules, capacity, doublings_max;
  };
  static constexpr std::uint32_t doublings_max(std::size_t blocks, std::size_t bytes) {
    std::uint32_t n = 0;
    while (blocks << n < kBlocksWanted && bytes << (n + 1) <= kSpanBytesMax) ++n;
    return n;
  }
  static constexpr auto make_facts() {
    std::array<Facts, Classes::kCount + 1> facts{};
    for (unsigned c = 1; c <= Classes::kCount; ++c) {
      const std::size_t size = Classes::size_of(c);
      const std::size_t blocks = size <= 32_KiB ? 8 : 4;
      const std::size_t granules = round_up(size * blocks, kGranule) / kGranule;
      const std::size_t capacity = granules * kGranule / size;
      facts[c] = {((std::uint64_t{1} << kShift) + size - 1) / size, static_cast<std::uint32_t>(granules),
                  static_cast<std::uint32_t>(capacity), doublings_max(capacity, granules * kGranule)};
    }
    return facts;
  }
  static constexpr auto kFacts = make_facts();
  static_assert(kFacts[Classes::kCount].granules * kGranule <= kInside,
                "slabs of so large blocks would be too long: take a smaller largest class (max_bytes), or smaller granules");
};

}  // namespace mortise
