// What realloc does with a block, step by step: it stays; from hit to hit; in place, by moving pages, or by copying.
#pragma once

#include <string.h>

#include "abi/heap.hpp"
#include "abi/hits.hpp"
#include "mortise/core/core.hpp"

namespace mortise::abi {

/// Whether a block of a size class serves so many bytes as well: it is large enough, and at least half of it is wanted.
MORTISE_HOT bool serves(Block b, std::size_t size) noexcept {
  return !kSizesExactly<Heap> && b.size_class != kNoClass && size <= b.size && size >= b.size / 2;
}

/// Has blocks of its own beside those that it passes to the heap below at once (AffinityPools).
template <class H> concept PassesBlocks = requires(H& h, const std::byte* p) {
  { h.is_passed(p) } noexcept -> std::same_as<bool>;
  h.passed();
};

/// Whether it is a block of the heap that keeps its place, at once: it serves as it is, or a guard that keeps lengths changes its size
/// within its class. Of blocks that are not passed to the heap below `reallocate` says so.
template <class H> MORTISE_HOT bool stays(H& h, std::byte* p, std::size_t size) noexcept {
  if constexpr (PassesBlocks<H>) return stays(h.passed(), p, size);
  if (!h.holds(p)) [[unlikely]] return false;
  const Block b = h.block_of(p);
  if constexpr (requires { h.resize_hit(b, size); }) return h.resize_hit(b, size);
  else return !kSizesExactly<H> && b.size_class != kNoClass && serves(h.measure(b), size);
}

/// Whether it is a block of the heap's own, not passed on, that keeps its place.
template <class H> MORTISE_HOT bool stays_unpassed(H& h, std::byte* p, std::size_t size) noexcept {
  if constexpr (PassesBlocks<H>) return !h.is_passed(p) && h.holds(p) && serves(h.measure(h.block_of(p)), size);
  return false;
}

/// Whether a guard has reported that the block is not held: then it measures 0. Where a layer measures requests to the byte
/// (kMeasuresToTheByte), that is a block of no bytes, which nobody has refused.
template <class H> MORTISE_HOT bool is_refused(Block measured) noexcept {
  if constexpr (requires { H::kMeasuresToTheByte; }) return false;
  return measured.is_unsized();
}

/// A block of a size class moves to another class, when a hit serves it; otherwise null, and nothing is done. O(bytes).
template <class H> MORTISE_HOT void* moved_by_hit(H& h, std::byte* p, std::size_t size, auto release) noexcept {
  auto& near = nearest(h);
  if (kSizesExactly<H> || size > kGrowingBytesOf<H> || !near.holds(p)) return nullptr;
  Block old = near.block_of(p);
  if (old.size_class == kNoClass) return nullptr;
  const Block b = hit_with_thread(h, {.size = size});
  if (!b) [[unlikely]] return nullptr;
  old = near.measure(old);  // after all else that may fail: what it tells of is told once
  if (is_refused<H>(old)) [[unlikely]] return b.ptr;  // it stays as it is
  memcpy(b.ptr, p, size < old.size ? size : old.size);
  release(p);
  return b.ptr;
}

/// After `prepare_thread`. Null without memory for more, and the block stays; there is always room for less. O(bytes) where it is copied.
template <class H> MORTISE_HOT void* resized(H& h, Block old, std::size_t size, auto allocate, auto release) noexcept {
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
