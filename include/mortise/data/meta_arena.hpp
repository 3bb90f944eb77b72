// Memory for bookkeeping: taken in chunks from the system, handed out front to back, never given back.
#pragma once

#include <cstddef>

#include "mortise/core/bits.hpp"
#include "mortise/core/units.hpp"
#include "mortise/os/pages.hpp"

namespace mortise {

/// Bump allocation over mapped chunks. Zeroed, aligned to a cache line. Not synchronised: its owner holds a lock.
/// Pages that nobody has written to cost no memory, so large, sparsely used tables are fine. O(1).
class MetaArena {
 public:
  static constexpr std::size_t kAlign = 64;
  static constexpr std::size_t kChunkBytes = 256_KiB;

  /// `bytes` of zeroed memory, or null when the system refuses.
  std::byte* take(std::size_t bytes) noexcept {
    bytes = round_up(bytes, kAlign);
    if (bytes > left_) {
      const std::size_t chunk = round_up(bytes, kChunkBytes);
      std::byte* fresh = os::map(chunk);
      if (!fresh) return nullptr;
      mapped_ += chunk;
      next_ = fresh;
      left_ = chunk;
    }
    std::byte* const p = next_;
    next_ += bytes;
    left_ -= bytes;
    return p;
  }
  std::size_t mapped_bytes() const noexcept { return mapped_; }

 private:
  std::byte* next_ = nullptr;
  std::size_t left_ = 0;
  std::size_t mapped_ = 0;
};

}  // namespace mortise
