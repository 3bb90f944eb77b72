// What is asked of an allocator.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mortise {

/// The alignment that every block has without asking: enough for any scalar type (`alignof(std::max_align_t)`).
inline constexpr std::size_t kMinAlign = 16;

/// A wish for memory, passed by value down the stack. Fields that a composition never reads cost nothing: the hit path is
/// inlined and they vanish.
struct Request {
  std::size_t size = 0;             ///< bytes wanted; zero is served as the smallest block
  std::size_t align = kMinAlign;    ///< a power of two
  bool zeroed = false;              ///< the bytes must read as zero; the layer that hands out the memory sees to it
  bool grows = false;               ///< a block moves here to become larger, and may want more yet (core/growing.hpp)
  const void* site = nullptr;       ///< the call site, for layers that route by it

  /// The same wish, `n` bytes larger. Saturates, never wraps.
  constexpr Request grown_by(std::size_t n) const {
    Request grown = *this;
    if (__builtin_add_overflow(size, n, &grown.size)) grown.size = SIZE_MAX;
    return grown;
  }
};

}  // namespace mortise
