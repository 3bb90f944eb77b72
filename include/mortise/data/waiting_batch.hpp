// A batch of released blocks that wait, of any size classes: which, where they were released, and how much that was in all.
//
//   head   ┌──────────────────┬────────────────────┬────────┐     one word, so that one addition puts a block in, a look at its
//          │ room that is left│ bytes of releases  │ blocks │     sign says whether there was room, and whoever glances at it from
//          └──────────────────┴────────────────────┴────────┘     another thread sees all three of one moment
//
// Used by guard/delayed_batches.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "mortise/core/inline.hpp"
#include "mortise/sync/atomics.hpp"

namespace mortise {

/// Holds `kBytes` of releases, or kSlots of them. Written by its owner; others glance. A plain field may be read once it was handed over.
template <std::size_t kBytes> class WaitingBatch {
 public:
  static constexpr std::size_t kBytesMin = 64;  ///< a smaller release counts as that
  /// Two batches of the smallest classes fit into a magazine (os/rseq.hpp), so that none of them is passed on and fetched again.
  static constexpr std::size_t kSlots = kBytes / kBytesMin < 126 ? kBytes / kBytesMin : 126;
  static constexpr std::uint64_t kNoRoom = std::uint64_t{1} << 63;  ///< the step of what is not to be put in

  Shared<WaitingBatch*> next;
  Shared<std::uint64_t> closed_at;  ///< by its owner's clock
  Shared<bool> has_long;            ///< a block was put in that is looked at beyond its start

  /// What a release of `cost` bytes adds to the head.
  static constexpr std::uint64_t step_of(std::uint64_t cost) noexcept {
    return 1 + (cost << kCountBits) - (room_for(cost) << kRoomAt);
  }
  MORTISE_HOT std::uint64_t head() const noexcept { return glance(head_); }
  MORTISE_HOT static bool has_room(std::uint64_t head_after) noexcept { return static_cast<std::int64_t>(head_after) >= 0; }

  /// Puts a block in that there is room for; `head` is the batch's. A signal handler sees it there, or not yet.
  MORTISE_HOT void put(std::uint64_t head, std::uint64_t step, std::byte* p, unsigned size_class, const void* freed_at) noexcept {
    const std::size_t at = count_of(head);
    show(block_[at], p);
    show(freed_at_[at], freed_at);
    show(class_[at], static_cast<std::uint8_t>(size_class));
    show(head_, head + step);
  }
  void open() noexcept {
    has_long = false;
    show(head_, std::uint64_t{kBytes} << kRoomAt);
  }
  void clear() noexcept { show(head_, std::uint64_t{0}); }

  unsigned count() const noexcept { return count_of(head()); }
  std::uint64_t bytes() const noexcept { return head() << (64 - kRoomAt) >> (64 - kRoomAt + kCountBits); }
  std::byte* block(unsigned i) const noexcept { return glance(block_[i]); }
  const void* freed_at(unsigned i) const noexcept { return glance(freed_at_[i]); }
  unsigned size_class(unsigned i) const noexcept { return glance(class_[i]); }

  // For whoever it was handed over to.
  std::byte** blocks() noexcept { return block_; }
  const std::uint8_t* classes() const noexcept { return class_; }

  /// All blocks are of one size class. Eight at a time.
  bool is_of_one_class() const noexcept {
    const unsigned n = count();
    unsigned i = 0;
    for (std::uint64_t eight; i + sizeof eight <= n; i += sizeof eight) {
      std::memcpy(&eight, class_ + i, sizeof eight);
      if (eight != std::uint64_t{0x0101'0101'0101'0101} * class_[0]) return false;
    }
    for (; i < n; ++i)
      if (class_[i] != class_[0]) return false;
    return true;
  }

 private:
  static constexpr unsigned kCountBits = 12, kRoomAt = 40;
  static_assert(kBytes >= kBytesMin && kBytes <= 64 * 1024, "the room and the bytes of a batch are parts of a word");

  MORTISE_HOT static constexpr unsigned count_of(std::uint64_t head) noexcept { return head & ((1u << kCountBits) - 1); }
  /// A block that is larger than a batch is alone in it.
  static constexpr std::uint64_t room_for(std::uint64_t cost) noexcept {
    constexpr std::uint64_t kLeast = (kBytes + kSlots - 1) / kSlots;
    return cost > kBytes ? kBytes : cost > kLeast ? cost : kLeast;
  }

  std::uint64_t head_ = 0;
  std::byte* block_[kSlots] = {};
  const void* freed_at_[kSlots] = {};
  std::uint8_t class_[kSlots] = {};
};

}  // namespace mortise
