// The SizeClasses slot: which class serves a size?
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "mortise/core/bits.hpp"
#include "mortise/core/inline.hpp"
#include "mortise/core/layer.hpp"
#include "mortise/core/units.hpp"

namespace mortise::classes {

namespace detail {

/// Classes a quantum apart from `kLeast` up to `kLinearBytes`, then `kSteps` equal steps between one power of two and the next.
/// A size finds its class by one load from a table of a byte for each 16 bytes of size. O(1). Static facts, no state.
template <std::size_t kLinearBytes, unsigned kSteps, std::size_t kMaxBytesT, std::size_t kLeast = kMinAlign> struct Stepped {
  static_assert(is_power_of_two(kSteps) && kSteps <= 16, "steps between powers of two: 1, 2, 4, 8 or 16");
  static_assert(is_power_of_two(kMaxBytesT) && kLinearBytes <= kMaxBytesT, "the largest class is a power of two");
  static_assert(is_power_of_two(kLinearBytes) && kLinearBytes >= kMinAlign * kSteps, "steps are a quantum or more");
  static_assert(is_power_of_two(kLeast) && kLeast >= kMinAlign && kLeast <= kLinearBytes,
                "the smallest class (least_bytes) is a power of two, and no larger than 16 times the steps");
  static constexpr std::size_t kMaxBytes = kMaxBytesT;
  static constexpr std::size_t kQuantum = kMinAlign;

 private:
  static constexpr unsigned kSkipped = kLeast / kQuantum - 1;              // so many quanta have no class
  static constexpr unsigned kLinear = kLinearBytes / kQuantum - kSkipped;  // so many classes are one quantum apart
  static constexpr unsigned kStepsLog2 = log2_floor(kSteps);
  static constexpr unsigned class_by_arithmetic(std::size_t n) {
    if (n <= kLinearBytes) return n > kLeast ? static_cast<unsigned>((n + kQuantum - 1) / kQuantum) - kSkipped : 1u;
    const unsigned top = log2_floor(n - 1);
    const unsigned step = static_cast<unsigned>((n - 1) >> (top - kStepsLog2)) & (kSteps - 1);
    return kLinear + ((top - log2_floor(kLinearBytes)) << kStepsLog2) + step + 1;
  }

 public:
  static constexpr unsigned kCount = class_by_arithmetic(kMaxBytes);

  /// Block size of class `c`, 1..kCount; 0 for kNoClass.
  static constexpr std::size_t size_of(unsigned c) { return kSizes[c]; }

  /// The smallest class whose blocks hold `n` bytes, for n <= kMaxBytes: one load. A size that is a multiple of a power of two
  /// gets a class whose size is one too, which is how alignments are served.
  MORTISE_HOT static constexpr unsigned class_of(std::size_t n) { return kClassOf[(n + kQuantum - 1) / kQuantum]; }

 private:
  static constexpr std::size_t size_by_arithmetic(unsigned c) {
    if (c <= kLinear) return (c + kSkipped) * kQuantum;
    const unsigned octave = (c - 1 - kLinear) >> kStepsLog2, step = (c - 1 - kLinear) & (kSteps - 1);
    const std::size_t base = kLinearBytes << octave;
    return base + (base >> kStepsLog2) * (step + 1);
  }
  static constexpr auto make_sizes() {
    std::array<std::uint32_t, kCount + 1> sizes{};
    for (unsigned c = 1; c <= kCount; ++c) sizes[c] = static_cast<std::uint32_t>(size_by_arithmetic(c));
    return sizes;
  }
  static constexpr auto make_class_of() {
    std::array<std::uint8_t, kMaxBytes / kQuantum + 1> classes{};
    for (std::size_t i = 0; i < classes.size(); ++i) classes[i] = static_cast<std::uint8_t>(class_by_arithmetic(i * kQuantum));
    return classes;
  }
  static_assert(kCount < 256, "a class fits a byte");
  static constexpr std::array<std::uint32_t, kCount + 1> kSizes = make_sizes();
  static constexpr std::array<std::uint8_t, kMaxBytes / kQuantum + 1> kClassOf = make_class_of();
};

}  // namespace detail

/// Geometric classes: equal steps between one power of two and the next, from 16 or more bytes on.
/// With 8 steps a block is at most 12.5 % larger than asked above 128 bytes; below, classes are 16 bytes apart.
/// `kSteps` (1..16, power of two): classes between one power of two and the next.
/// `kMaxBytesT` (1 KiB..1 MiB, power of two): the largest class; larger requests are not the slabs' affair.
/// `kLeastBytes` (16..128, power of two): the smallest class.
template <unsigned kSteps = 8, std::size_t kMaxBytesT = 256_KiB, std::size_t kLeastBytes = 16>
struct Geometric : detail::Stepped<kMinAlign * kSteps, kSteps, kMaxBytesT, kLeastBytes> {
  static constexpr const char* kName = "Geometric";
};

/// Exact and then geometric classes: every multiple of 16 bytes has a class up to a bound, where programs have most of their
/// objects. No waste but that of alignment there; more classes, so more slabs that are filled in part.
/// `kExactBytes` (256..2 KiB, power of two): up to here classes are 16 bytes apart.
/// `kSteps` (1..16, power of two): classes between one power of two and the next beyond.
/// `kMaxBytesT` (4 KiB..1 MiB, power of two): the largest class.
/// `kLeastBytes` (16..128, power of two): the smallest class.
template <std::size_t kExactBytes = 1_KiB, unsigned kSteps = 4, std::size_t kMaxBytesT = 256_KiB, std::size_t kLeastBytes = 16>
struct ExactSmall : detail::Stepped<kExactBytes, kSteps, kMaxBytesT, kLeastBytes> {
  static constexpr const char* kName = "ExactSmall";
};

/// Powers of two: the fewest classes, up to half of a block wasted.
/// `kMaxBytesT` (1 KiB..1 MiB, power of two): the largest class.
template <std::size_t kMaxBytesT = 256_KiB> using PowerOfTwo = Geometric<1, kMaxBytesT>;

}  // namespace mortise::classes

namespace mortise {

/// Classes of which each size has one, not one in each colour.
template <class C> concept PlainSizeMap = SizeMap<C> && !requires { C::kColours; };

namespace detail {
/// The facts on colours (policy/coloured.hpp) of classes that have them.
template <class C, std::size_t kTaken> struct ShrunkColours {};
template <class C, std::size_t kTaken> requires requires { C::kColours; } struct ShrunkColours<C, kTaken> {
  static constexpr unsigned kColours = C::kColours;
  static constexpr std::size_t kColouredBytes = C::kColouredBytes - kTaken;
  static constexpr unsigned plain(unsigned c) { return C::plain(c); }
  static constexpr unsigned colour_of(unsigned c) { return C::colour_of(c); }
  static constexpr unsigned offset_of(unsigned colour) { return C::offset_of(colour); }
  static constexpr unsigned in_colour(unsigned c, unsigned colour) { return C::in_colour(c, colour); }
};
}  // namespace detail

/// The size facts of a heap that takes `kTaken` bytes of every block for itself.
template <class C, std::size_t kTaken> struct Shrunk : detail::ShrunkColours<C, kTaken> {
  static constexpr std::size_t kTakenBytes = kTaken;
  static constexpr unsigned kCount = C::kCount;
  static constexpr std::size_t kMaxBytes = C::kMaxBytes - kTaken;
  static constexpr unsigned class_of(std::size_t n) { return C::class_of((n ? n : 1) + kTaken); }  // no block of no bytes
  static constexpr std::size_t size_of(unsigned c) { return C::size_of(c) > kTaken ? C::size_of(c) - kTaken : 0; }
};
template <std::size_t kTaken> struct Shrunk<NoClasses, kTaken> : NoClasses {};
/// Whether some layer of a heap does: its blocks lie further apart than their classes are large, and not all are 16 bytes.
template <class H> inline constexpr bool kIsShrunk = requires { H::Classes::kTakenBytes; };

}  // namespace mortise
