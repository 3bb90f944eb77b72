// ranges.hpp: address ranges in an array without order.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mortise::isolate {

/// Takes [low, high) out of `ranges`: cuts and removes what reaches into it. Whether anything did. Where a cut makes one more than
/// `most`, its upper part is lost.
template <class Range>
bool cut_ranges(Range* ranges, std::size_t& count, std::size_t most, std::uintptr_t low, std::uintptr_t high) noexcept {
  bool any = false;
  for (std::size_t i = 0; i < count;) {
    Range& r = ranges[i];
    if (r.low >= high || r.high <= low) {
      ++i;
      continue;
    }
    any = true;
    if (r.low < low) {
      if (r.high > high && count < most) ranges[count++] = {high, r.high};
      r.high = low;
      ++i;
    } else if (r.high > high) {
      r.low = high;
      ++i;
    } else {
      r = ranges[--count];
    }
  }
  return any;
}

}  // namespace mortise::isolate
