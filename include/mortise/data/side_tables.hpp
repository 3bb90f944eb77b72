// Address space for tables that grow with a heap: handed out front to back, made usable piece by piece.
#pragma once

#include <cstddef>

#include "mortise/core/bits.hpp"
#include "mortise/os/pages.hpp"
#include "mortise/os/window.hpp"

namespace mortise {

/// Cuts tables out of [place, place + reach). Nothing is mapped until `back`. Not synchronised: its owner holds a lock. O(1),
/// but for what others have mapped where a table would begin.
class SideTables {
 public:
  /// Says where the tables lie. Once, before the first `take`.
  void place(std::byte* at, std::size_t reach) noexcept {
    at_ = at;
    reach_ = reach;
  }
  /// Addresses for a table of at most `bytes`, a multiple of `step` apart from the next; null when the room is used up. It begins where
  /// nobody has mapped anything: windows of many heaps overlap, and a table cannot be moved later.
  std::byte* take(std::size_t bytes, std::size_t step) noexcept {
    bytes = round_up(bytes, step);
    for (std::size_t at = next_; bytes <= reach_ && at <= reach_ - bytes; at += round_up(os::kWindowStep, step)) {
      if (os::probe(at_ + at) == os::MapAt::taken) continue;
      next_ = at + bytes;
      return at_ + at;
    }
    return nullptr;
  }
  /// Makes a part of a table usable: zeroed memory. False when the system refuses.
  bool back(std::byte* at, std::size_t bytes) noexcept {
    if (os::map_at(at, bytes) != os::MapAt::done) return false;
    mapped_ += bytes;
    return true;
  }
  std::size_t mapped_bytes() const noexcept { return mapped_; }

 private:
  std::byte* at_ = nullptr;
  std::size_t reach_ = 0;
  std::size_t next_ = 0;
  std::size_t mapped_ = 0;
};

}  // namespace mortise
