// The Huge slot: which part of the heap asks for huge pages?
#pragma once

#include <cstddef>

namespace mortise::huge {

inline constexpr std::size_t kPageBytes = std::size_t{2} << 20;  ///< what transparent huge pages are on x86-64 and aarch64

/// None: the smallest footprint in steps of ordinary pages.
struct Never {
  static constexpr const char* kName = "Never";
  static constexpr std::size_t kFromBytes = ~std::size_t{0};
};

/// What the heap grows by once it has `kBytes`. A step of 2 MiB is then a small part of the whole, and the heap is large enough
/// for first touches and TLB misses to matter.
template <std::size_t kBytes> struct After {
  static constexpr const char* kName = "After";
  static constexpr std::size_t kFromBytes = kBytes;
};

}  // namespace mortise::huge
