// What realloc does with a block that cannot just keep its place: in place, by moving pages, or by copying.
#pragma once

#include <string.h>

#include "abi/heap.hpp"
#include "mortise/core/core.hpp"

namespace mortise::abi {

/// Whether a block of a size class serves so many bytes as well: it is large enough, and at least half of it is wanted.
MORTISE_HOT bool serves(Block b, std::size_t size) noexcept {
  return !kSizesExactly<Heap> && b.size_class != kNoClass && size <= b.size && size >= b.size / 2;
}

/// After `prepare_thread`. Null without memory for more, and the block stays; there is always room for less. O(bytes) where it is copied.
template <class H> void* resized(H& h, Block old, std::size_t size, auto allocate, auto release) noexcept {
  const bool is_larger = size > old.size;
  Block b{}, fresh{};
  if (kSizesExactly<H> || old.size_class == kNoClass) b = resize_below(h, thread(), old, size);
  if (!b && is_larger && old.size_class == kNoClass) b = move_below(h, thread(), old, size);
  if (!b && is_larger) fresh = allocate_growing(h, thread(), size);
  leave_if_ended();
  if (b && size < old.size) note_release();
  if (b) return b.ptr;
  void* const copy = fresh ? fresh.ptr : allocate(Request{.size = size});
  if (!copy) return is_larger ? nullptr : old.ptr;
  memcpy(copy, old.ptr, is_larger ? old.size : size);
  release(old.ptr);
  return copy;
}

}  // namespace mortise::abi
