// The Huge slot: which part of the heap asks for huge pages?
#pragma once

#include <concepts>
#include <cstddef>

namespace mortise {

/// `kFromBytes`: what the heap grows by beyond this size asks for huge pages. One that has `from_bytes()` is asked that instead, each time.
template <class H>
concept HugePolicy = requires {
  { H::kFromBytes } -> std::convertible_to<std::size_t>;
  { H::kName } -> std::convertible_to<const char*>;
};

}  // namespace mortise

namespace mortise::huge {

inline constexpr std::size_t kPageBytes = std::size_t{2} << 20;  ///< what transparent huge pages are on x86-64 and aarch64

/// None: the smallest footprint in steps of ordinary pages.
struct Never {
  static constexpr const char* kName = "Never";
  static constexpr std::size_t kFromBytes = ~std::size_t{0};
};

/// Blocks of two huge pages and more, each for itself. What the heap grows by otherwise does not, however large it is: where most of what a
/// span holds is never touched, a huge page would bring it in.
struct ForBlocks {
  static constexpr const char* kName = "ForBlocks";
  static constexpr std::size_t kFromBytes = Never::kFromBytes;
};

/// What a large heap grows by. A step of 2 MiB is then a small part of the whole, and the heap is large enough for first touches
/// and TLB misses to matter.
/// A block of two huge pages asks before that, for itself.
/// `kBytes` (0..1 TiB): the heap is large from here on.
template <std::size_t kBytes> struct After {
  static constexpr const char* kName = "After";
  static constexpr std::size_t kFromBytes = kBytes;
};

}  // namespace mortise::huge
