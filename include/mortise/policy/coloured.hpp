// Small size classes in several colours, so that cores never share a cache line: each core takes blocks of its own colour only.
//
//   class 3, colour 0 (cores 0, 4, ..)   ┌ span ─────────────┐     a block freed by any core goes back to its own colour:
//   class 3, colour 1 (cores 1, 5, ..)   ┌ span ─────────────┐     the class map tells which, at no cost on the hit path
//
// A colour of a class is a size class of its own to everyone else: own spans, own lists, own lock. Only CoreCache (which colour
// does this core take?) and Slab (a core in want takes over a span of another colour) know that colours of a class are one size.
// Without colours, a batch of blocks that one core gave up may be handed to another, and their neighbours lie on the same lines
// (active and passive false sharing, [Berger00] Hoard).
#pragma once

#include <array>

#include "mortise/core/core.hpp"
#include "mortise/policy/size_classes.hpp"

namespace mortise::classes {

/// Small size classes in several colours: each core takes blocks of its own colour, so that cores share no cache line. Colour 0 keeps the
/// numbers of the classes; the other colours follow. Static facts, no state. With more cores than colours, cores of one colour may still
/// share a line.
/// `SizeClassesT`: the classes that come in colours.
/// `kColoursT` (2..16, power of two): how many colours.
/// `kBytes` (16..4 KiB): the largest size that comes in colours.
template <PlainSizeMap SizeClassesT, unsigned kColoursT = 4, std::size_t kBytes = 1_KiB> struct Coloured : SizeClassesT {
  using Base = SizeClassesT;
  using Base::class_of, Base::kMaxBytes;
  static_assert(is_power_of_two(kColoursT) && kColoursT >= 2, "colours: a power of two, 2 or more");
  static_assert(kBytes <= kMaxBytes, "colours: none beyond the largest class");
  static constexpr const char* kName = "Coloured";
  static constexpr unsigned kColours = kColoursT;
  static constexpr std::size_t kColouredBytes = kBytes;
  static constexpr unsigned kPlain = Base::kCount;                 ///< classes of colour 0, large ones among them
  static constexpr unsigned kPerColour = Base::class_of(kBytes);   ///< how many of them come in colours
  static constexpr unsigned kCount = kPlain + (kColours - 1) * kPerColour;
  static_assert(kCount < 256, "colours: more than 255 classes in all; take fewer colours, or fewer sizes that come in them");

  static constexpr std::size_t size_of(unsigned c) { return kSizes[c]; }
  /// The class of colour 0 that class `c` is a colour of.
  static constexpr unsigned plain(unsigned c) { return c <= kPlain ? c : (c - kPlain - 1) % kPerColour + 1; }
  static constexpr unsigned colour_of(unsigned c) { return c <= kPlain ? 0 : (c - kPlain - 1) / kPerColour + 1; }
  /// How far the classes of a colour lie behind those of colour 0.
  static constexpr unsigned offset_of(unsigned colour) { return colour ? kPlain + (colour - 1) * kPerColour : 0; }
  /// Class `c` of colour 0 in another colour; itself if it has none.
  static constexpr unsigned in_colour(unsigned c, unsigned colour) { return c <= kPerColour ? c + offset_of(colour) : c; }

 private:
  static constexpr auto make_sizes() {
    std::array<std::uint32_t, kCount + 1> sizes{};
    for (unsigned c = 1; c <= kCount; ++c) sizes[c] = static_cast<std::uint32_t>(Base::size_of(plain(c)));
    return sizes;
  }
  static constexpr std::array<std::uint32_t, kCount + 1> kSizes = make_sizes();
};

}  // namespace mortise::classes

namespace mortise {

template <class C> concept ColouredMap = SizeMap<C> && requires { C::kColours; };

template <class C> constexpr unsigned colours_of() { if constexpr (ColouredMap<C>) return C::kColours; else return 1; }
/// The class of colour 0 that `c` is a colour of; `c` itself where classes have no colours.
template <class C> constexpr unsigned plain_class(unsigned c) { if constexpr (ColouredMap<C>) return C::plain(c); else return c; }

}  // namespace mortise
