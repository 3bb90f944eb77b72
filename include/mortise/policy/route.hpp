// The Route slot: who gets this request?
#pragma once

#include <cstddef>

namespace mortise {

/// Claims requests of more than `kBytes`.
template <std::size_t kBytes> struct LargerThan {
  static constexpr const char* kName = "LargerThan";
  static constexpr std::size_t kLimit = kBytes;
  static constexpr bool claims(std::size_t size) noexcept { return size > kBytes; }
};

}  // namespace mortise
