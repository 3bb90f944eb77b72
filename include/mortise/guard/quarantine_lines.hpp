// What a quarantine in batches knows of each size class: what a release counts, what is filled, how large a block is. Static facts.
//
//   line of a class   ┌──────────────────────────────┬─────────────────────────┬───────┐
//   16 bytes          │ step: what the head grows by │ length: what is filled  │ class │   all that a hit wants to know
//                     └──────────────────────────────┴─────────────────────────┴───────┘
//
// Used by guard/delayed_batches.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "mortise/core/core.hpp"
#include "mortise/policy/fill.hpp"

namespace mortise {

/// For a quarantine of `kBytes` in batches of type `Batch` that hold `kBatchBytes`.
template <class Classes, QuarantineFill Fill, class Batch, std::size_t kBytes, std::size_t kBatchBytes> struct QuarantineLines {
  static_assert(Classes::kCount < 256, "a block's class is a byte of its batch");

  /// Bytes that a release counts; a small block counts for more, so that the number of blocks that wait is bounded, too. 0: blocks of
  /// the class do not stay.
  static constexpr auto kCostOf = [] {
    std::array<std::uint32_t, Classes::kCount + 1> cost{};
    for (unsigned c = 1; c <= Classes::kCount; ++c)
      if (const std::size_t bytes = Classes::size_of(c); bytes <= kBytes / 2)
        cost[c] = static_cast<std::uint32_t>(bytes > Batch::kBytesMin ? bytes : Batch::kBytesMin);
    return cost;
  }();
  static constexpr std::size_t filled_of(unsigned c) noexcept {
    return std::min<std::size_t>(Classes::size_of(c), Fill::kFillBytes) & ~std::size_t{15};
  }
  static constexpr bool is_filled(unsigned c) noexcept { return Fill::kFillBytes > 0 && kCostOf[c] != 0; }
  static constexpr std::size_t kLeast = filled_of(1);
  /// Where long ones are so long that a batch has room for four, no hit takes them, and no hit asks.
  static constexpr bool kHitsAreShort = [] {
    if constexpr (Fill::kFillBytes > 0) return Fill::kLongFrom >= kBatchBytes / 4;
    return false;
  }();

  /// What a hit adds to a batch's head, what it fills and how large the block is.
  template <class F, bool kFills = (F::kFillBytes > 0)> struct LineFor {
    std::uint64_t step = Batch::kNoRoom;
  };
  template <class F> struct alignas(16) LineFor<F, true> {
    std::uint64_t step = Batch::kNoRoom;
    [[no_unique_address]] typename F::Length length;  // its 7 bytes leave room for one more
    std::uint8_t size_class = 0;
    MORTISE_HOT std::size_t bytes() const noexcept { return length.bytes; }
  };
  using Line = LineFor<Fill>;
  /// What a byte that is no class is as long as: no block.
  static constexpr std::size_t kNoBlock = 1_GiB;
  /// By any byte.
  static constexpr auto kHit = [] {
    std::array<Line, 256> hit{};
    if constexpr (Fill::kFillBytes > 0)
      for (Line& none : hit) none.length = typename Fill::Length(kNoBlock);
    static_assert(sizeof hit[0] <= 16, "four lines share a cache line");
    for (unsigned c = 1; c <= Classes::kCount; ++c) {
      bool is_taken = kCostOf[c] != 0;
      if constexpr (kHitsAreShort) is_taken = is_taken && filled_of(c) < Fill::kLongFrom;
      if (is_taken) hit[c].step = Batch::step_of(kCostOf[c]);
      if constexpr (Fill::kFillBytes > 0) {
        hit[c].length = typename Fill::Length(is_filled(c) ? filled_of(c) : Classes::size_of(c));
        hit[c].size_class = static_cast<std::uint8_t>(c);
      }
    }
    return hit;
  }();
  /// Whether a line's bytes() is the block's size, for every class.
  static constexpr bool kTellSizes = [] {
    bool tells = Fill::kFillBytes > 0;
    for (unsigned c = 1; c <= Classes::kCount; ++c) tells = tells && (!is_filled(c) || filled_of(c) == Classes::size_of(c));
    return tells;
  }();
};

}  // namespace mortise
