// Buckets on a logarithmic scale: how 64-bit values that spread over many orders of magnitude are counted in little
// room.
//
//   value   0 1 2 ... 15 | 16 17 ... 31 | 32 34 ... 62 | 64 68 ... |       each octave is cut into kParts equal buckets,
//   bucket  0 1 2 ... 15 | 16 17 ... 31 | 32 33 ... 47 | 48 49 ... |       so that a bucket is at most 1/kParts of its value wide
//
// Source: the HDR histogram's bucketing, with the precision fixed at compile time.
#pragma once

#include <cstdint>

#include "mortise/core/bits.hpp"

namespace mortise {

/// Arithmetic only: where the counters lie, and how threads share them, is the user's. Every value below 2^kOctaves
/// has a bucket; larger ones share the last.
template <unsigned kPartsLog2 = 4, unsigned kOctaves = 40> struct LogBuckets {
  static constexpr unsigned kParts = 1u << kPartsLog2;
  static constexpr unsigned kCount = (kOctaves - kPartsLog2 + 1) * kParts;

  /// O(1), no branch beyond the two ends.
  static constexpr unsigned bucket_of(std::uint64_t value) noexcept {
    if (value < kParts) return static_cast<unsigned>(value);
    const unsigned octave = log2_floor(value);
    if (octave >= kOctaves) return kCount - 1;
    const auto part = static_cast<unsigned>(value >> (octave - kPartsLog2)) - kParts;
    return (octave - kPartsLog2 + 1) * kParts + part;
  }

  /// The least value of a bucket; `floor_of(bucket + 1) - 1` is its greatest.
  static constexpr std::uint64_t floor_of(unsigned bucket) noexcept {
    if (bucket < 2 * kParts) return bucket;
    const unsigned octave = bucket / kParts - 1 + kPartsLog2;
    return (std::uint64_t{kParts} + bucket % kParts) << (octave - kPartsLog2);
  }
};

}  // namespace mortise
