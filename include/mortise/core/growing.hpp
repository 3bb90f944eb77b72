// A block that realloc makes larger, and larger again, crosses one size class after the other: each is a copy, and leaves a block behind
// that no one asks for soon. Past the size classes it is a span of its own, which grows where it lies.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mortise/core/block.hpp"
#include "mortise/core/request.hpp"

namespace mortise {

/// Requests for more than this, with `grows` set, get a block without a size class: `resize_in_place` may make that larger. SIZE_MAX where
/// a heap does not look at `grows`.
template <class H> constexpr std::size_t kGrowingBytesOf = [] {
  if constexpr (requires { H::kGrowingBytes; }) return H::kGrowingBytes; else return SIZE_MAX;
}();

/// Whether `r` is such a request: a cache lets it through.
template <class H> constexpr bool grows_past(Request r) noexcept { return r.grows && r.size > kGrowingBytesOf<H>; }

/// The place for a block that moves to become `n` bytes large, and may want more yet. Empty where such a block is one like any other, and
/// without memory. O(1) and as `allocate`.
template <class H> Block allocate_growing(H& h, typename H::Thread& t, std::size_t n) noexcept {
  if constexpr (kGrowingBytesOf<H> != SIZE_MAX)
    if (n > kGrowingBytesOf<H>) return h.allocate(t, {.size = n, .grows = true});
  return {};
}

}  // namespace mortise
