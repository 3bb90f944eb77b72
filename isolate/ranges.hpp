// ranges.hpp: address ranges in an array without order.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mortise::isolate {

/// What is cut out of the middle of a range leaves one more. Makes it before anything is changed; false: `most` leave no room for it.
template <class Range>
bool divide_ranges(Range* ranges, std::size_t& count, std::size_t most, std::uintptr_t low, std::uintptr_t high) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    if (ranges[i].low >= low || ranges[i].high <= high) continue;
    if (count == most) return false;
    ranges[count++] = {high, ranges[i].high};
    ranges[i].high = high;
    return true;
  }
  return true;
}

/// Takes [low, high) out of `ranges`: cuts and removes what reaches into it. Whether anything did. Where there may be no room for what is
/// left above a cut, they must have been divided.
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
