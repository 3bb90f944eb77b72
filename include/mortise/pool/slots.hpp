// Where a pool's objects lie: one range of slots, and beside it one range of nodes that link free slots.
//
//   low address                                                                              high address
//   ┌─────────┬───────┬──────────────┬────────┬────────────────────┬──────────────────────────────────┐
//   │ control │ table │ magazines    │ shards │ node node node ... │ slot    slot    slot    ...      │
//   └─────────┴───────┴──────────────┴────────┴────────────────────┴──────────────────────────────────┘
//     wiped in the child of a fork              32 bytes a slot       stride bytes each, never unmapped
//                                                                     while the pool lives
//
// The range is reserved for the maximum at once and costs memory only where it has been touched. So an index and a
// pointer are the same thing, a pointer that is not ours is seen by comparing, and a slow pop may read a node at any
// time.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "mortise/core/bits.hpp"
#include "mortise/core/inline.hpp"
#include "mortise/sync/atomics.hpp"
#include "mortise/sync/free_link.hpp"

namespace mortise::pools {

inline constexpr std::uint32_t kNoSlot = UINT32_MAX;

/// A chain of free slots hangs on the node of its first. Each node of a chain names its own slot and the `kOthers`
/// after it, so that whoever takes a chain that another core gave waits for one cache line in five slots and not for
/// one a slot: an unrolled list.
struct Node {
  static constexpr unsigned kOthers = 4;
  static constexpr unsigned kSlots = 1 + kOthers;

  FreeLink link;                          ///< the stack's, in the chain's first
  Shared<std::uint32_t> next;             ///< index of the slot on whose node the chain goes on
  Atomic<std::uint32_t> count;            ///< in the first: slots of the chain; a mark while the pool is trimmed
  Shared<std::uint32_t> others[kOthers];  ///< indices of the slots after this one, as many as the chain has
};
static_assert(sizeof(Node) == 32, "what a free slot costs beside its own bytes");

/// Arithmetic between pointers and indices. The stride is any multiple of the alignment; dividing by it is a
/// multiplication, because the division is known to be exact. [Granlund94]
class Slots {
 public:
  constexpr Slots() noexcept = default;
  Slots(std::byte* base, Node* nodes, std::size_t stride, std::uint32_t maximum) noexcept
      : base_(base),
        nodes_(nodes),
        stride_(stride),
        shift_(static_cast<unsigned>(std::countr_zero(stride))),
        maximum_(maximum) {
    const std::uint64_t odd = stride >> shift_;
    inverse_ = odd;                                              // right in its low 3 bits
    for (int i = 0; i < 5; ++i) inverse_ *= 2 - odd * inverse_;  // and in twice as many after each round
  }

  std::byte* at(std::uint32_t i) const noexcept { return base_ + i * stride_; }
  Node& node(std::uint32_t i) const noexcept { return nodes_[i]; }
  std::uint32_t index_of(const void* slot) const noexcept {
    return static_cast<std::uint32_t>(((address_of(slot) - address_of(base_)) >> shift_) * inverse_);
  }
  std::uint32_t index_of(const FreeLink* link) const noexcept {
    return static_cast<std::uint32_t>(reinterpret_cast<const Node*>(link) - nodes_);
  }
  /// Whether `p` is the start of a slot.
  bool holds(const void* p) const noexcept {
    const std::uintptr_t distance = address_of(p) - address_of(base_);
    return distance < stride_ * maximum_ && distance % stride_ == 0;
  }
  std::size_t stride() const noexcept { return stride_; }
  std::uint32_t maximum() const noexcept { return maximum_; }

 private:
  std::byte* base_ = nullptr;
  Node* nodes_ = nullptr;
  std::size_t stride_ = 1;
  std::uint64_t inverse_ = 1;
  unsigned shift_ = 0;
  std::uint32_t maximum_ = 0;
};

}  // namespace mortise::pools
