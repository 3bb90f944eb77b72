// Are large blocks filled, or is most of each never touched? Measured, on one of them at a time: that one's middle is small pages, and how
// many of these are in memory says it.
//
//   unknown ──► the first block of up to 32 MiB asks, and is watched; others wait ──► filled: blocks ask, up to 64 MiB and 4 of the largest
//                                                                                └──► sparse: none does, and each new one is watched
//
// A huge page is memory as a whole when one byte of it is touched. Stacks of a database and tables that are reserved large are touched
// here and there: 16 blocks of 16 MiB with a byte in each MiB took 259 MiB, and take 19.
//
// Under the lock of whoever owns the spans. Not exact: a block that is being filled while another one comes looks sparse, until it is
// looked at again, when the next one comes or it goes.
#pragma once

#include <algorithm>

#include "mortise/core/core.hpp"
#include "mortise/os/residency.hpp"
#include "mortise/policy/huge.hpp"

namespace mortise {

class BlockDensity {
 public:
  static constexpr std::size_t kLeastBytes = 2 * huge::kPageBytes;  ///< of blocks that are asked about; a huge page lies within each
  static constexpr std::size_t kFirstBytes = 32_MiB, kFilledTimes = 4;

  void start(std::size_t page_bytes) noexcept { page_bytes_ = page_bytes; }

  bool is_known() const noexcept { return known_ != kUnknown; }
  bool is_sparse() const noexcept { return known_ == kSparse; }
  /// Whether a new block of so many bytes is to be huge pages, as far as is known. O(1).
  bool may_ask(std::size_t bytes) const noexcept {
    if (known_ == kFilled) return bytes <= std::max(2 * kFirstBytes, kFilledTimes * filled_bytes_);
    return known_ == kUnknown && !watched_.ptr && bytes <= kFirstBytes;
  }

  /// What `watch` keeps in small pages of a block that asks: a huge page in its middle.
  static Block middle_of(Block b) noexcept {
    const std::uintptr_t at = address_of(b.ptr) + (b.size - huge::kPageBytes) / 2;
    return {b.ptr + (round_up(at, huge::kPageBytes) - address_of(b.ptr)), huge::kPageBytes};
  }
  /// From now on it is this one.
  void watch(Block b) noexcept { watched_ = b; }
  bool watches(const std::byte* p) const noexcept { return p == watched_.ptr; }
  Block watched() const noexcept { return watched_; }
  void forget() noexcept { watched_ = {}; }

  /// Looks at the block that is watched: true when something of its middle is in memory, and says how it is. One system call; O(pages).
  bool look() noexcept {
    const std::size_t bytes = watched_.ptr ? resident_in_middle(watched_) : 0;
    if (bytes == 0) return false;
    known_ = bytes >= kFilledFrom ? kFilled : kSparse;
    if (known_ == kFilled) filled_bytes_ = std::max(filled_bytes_, watched_.size);
    return true;
  }
  /// Whether who had the memory of `b` before has left so little of it that what its owner does can be told.
  bool can_watch(Block b) const noexcept { return resident_in_middle(b) < kFilledFrom; }

 private:
  static constexpr std::size_t kFilledFrom = huge::kPageBytes / 2;
  std::size_t resident_in_middle(Block b) const noexcept {
    return os::resident_bytes(middle_of(b).ptr, huge::kPageBytes, page_bytes_, page_bytes_);
  }

  enum : unsigned char { kUnknown, kFilled, kSparse } known_ = kUnknown;
  std::size_t page_bytes_ = 0, filled_bytes_ = 0;
  Block watched_;
};

}  // namespace mortise
