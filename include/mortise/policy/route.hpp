// The Route slot: who gets this request?
#pragma once

#include <concepts>
#include <cstddef>

namespace mortise {

/// `claims(size)`: whether a request of that size takes the other way.
template <class R>
concept RoutePolicy = requires(std::size_t size) {
  { R::claims(size) } -> std::same_as<bool>;
  { R::kName } -> std::convertible_to<const char*>;
};

/// Claims the large requests.
/// `kBytes` (0..1 TiB): the largest size that is not claimed.
template <std::size_t kBytes> struct LargerThan {
  static constexpr const char* kName = "LargerThan";
  static constexpr std::size_t kLimit = kBytes;
  static constexpr bool claims(std::size_t size) noexcept { return size > kBytes; }
};

}  // namespace mortise
