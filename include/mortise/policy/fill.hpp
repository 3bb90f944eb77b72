// The Fill slot: what is done to the bytes of a block that waits in a quarantine?
#pragma once

#include <concepts>
#include <cstddef>

#include "mortise/core/units.hpp"

namespace mortise {

/// `kFillBytes`: so many bytes at the start of a block are zeroed when it comes, and looked at when it goes.
template <class P>
concept QuarantineFill = requires {
  { P::kFillBytes } -> std::convertible_to<std::size_t>;
  { P::kName } -> std::convertible_to<const char*>;
};

namespace fills {

/// Blocks stay as the program left them.
struct Untouched {
  static constexpr const char* kName = "Untouched";
  static constexpr std::size_t kFillBytes = 0;
};

/// Zeroed when it comes, and zero when it goes: a write after free is found, a read after free finds nothing, what was there leaks to
/// nobody.
/// `kBytes` (16..1 GiB): so much of a block, from its start.
template <std::size_t kBytes = 1_GiB> struct Zeroed {
  static constexpr const char* kName = "Zeroed";
  static constexpr std::size_t kFillBytes = kBytes;
};

}  // namespace fills
}  // namespace mortise
