// The Order slot: which block leaves a quarantine next?
#pragma once

#include <concepts>

namespace mortise {

/// `kDraws`: the next one is drawn among all that wait, instead of the oldest.
template <class P>
concept QuarantineOrder = requires {
  { P::kDraws } -> std::convertible_to<bool>;
  { P::kName } -> std::convertible_to<const char*>;
};

namespace order {

/// The one that has been there longest.
struct Fifo {
  static constexpr const char* kName = "Fifo";
  static constexpr bool kDraws = false;
};

/// Any: whoever wants a block back cannot count releases until it is his.
struct Randomised {
  static constexpr const char* kName = "Randomised";
  static constexpr bool kDraws = true;
};

}  // namespace order
}  // namespace mortise
