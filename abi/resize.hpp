// What realloc does with a block before it copies, wherever realloc is offered.
//
//   serves as it is? ─ else ─► in place ─ else ─► by moving its pages ─ else ─► a place for one that grows ─ else ─► the caller allocates
//                                                 only to become larger: what is smaller is copied to a block that is smaller
#pragma once

#include "abi/heap.hpp"

namespace mortise::abi {

/// Whether a block of a size class serves so many bytes as well: it is large enough, and at least half of it is wanted.
MORTISE_HOT bool serves(Block b, std::size_t size) noexcept {
  return !kSizesExactly<Heap> && b.size_class != kNoClass && size <= b.size && size >= b.size / 2;
}

/// `resized` is the block with its bytes. Else `fresh`, where there is one, is where to copy them.
struct Resized {
  Block resized, fresh;
};

/// After `prepare_thread`, for a block that is measured.
inline Resized resize_block(Block old, std::size_t size) noexcept {
  const bool is_larger = size > old.size;
  Resized r{};
  if (kSizesExactly<Heap> || old.size_class == kNoClass) r.resized = resize_below(heap, thread(), old, size);
  if (!r.resized && is_larger && old.size_class == kNoClass) r.resized = move_below(heap, thread(), old, size);
  if (!r.resized && is_larger) r.fresh = allocate_growing(heap, thread(), size);
  leave_if_ended();
  if (r.resized && size < old.size) note_release();
  return r;
}

}  // namespace mortise::abi
