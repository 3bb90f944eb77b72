// Numbers that are handed out one at a time, and come back: the one that came last goes first. Not synchronised. All zeros is ready.
#pragma once

#include <cstdint>

namespace mortise {

/// The numbers from 1 to `kEnd` - 1. O(1).
template <std::uint32_t kEnd> class IdleNumbers {
  static_assert(kEnd <= 1u << 16, "a number fits 16 bits");

 public:
  /// 0 when all are out.
  std::uint32_t take() noexcept {
    if (const std::uint32_t n = first_) {
      first_ = next_[n];
      return n;
    }
    return last_ + 1 < kEnd ? ++last_ : 0;
  }
  void give(std::uint32_t n) noexcept {
    next_[n] = static_cast<std::uint16_t>(first_);
    first_ = n;
  }

 private:
  std::uint32_t last_ = 0, first_ = 0;
  std::uint16_t next_[kEnd] = {};
};

}  // namespace mortise
