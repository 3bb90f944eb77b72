// The Fit slot of backbones: which of the spans (or free blocks) that could serve is taken?
#pragma once

namespace mortise::fit {

/// The span with the fewest free blocks: others get the chance to become empty and go back. Costs a move between lists when a
/// span crosses a quarter of its capacity.
struct FullestFirst {
  static constexpr const char* kName = "FullestFirst";
  static constexpr unsigned kBins = 4;
  /// The list for a span with `free` of `capacity` blocks free; lists are searched from 0 up.
  static unsigned bin_of(unsigned free, unsigned capacity) noexcept { return (free - 1) * kBins / capacity; }
};

/// The span that was used last: one list, no moves, warm in the cache; fragments more.
struct LatestFirst {
  static constexpr const char* kName = "LatestFirst";
  static constexpr unsigned kBins = 1;
  static unsigned bin_of(unsigned, unsigned) noexcept { return 0; }
};

}  // namespace mortise::fit
