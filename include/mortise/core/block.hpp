// What an allocator gives.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mortise/core/standard.hpp"

namespace mortise {

/// The size class of blocks that belong to none (large ones). Real classes count from 1.
inline constexpr unsigned kNoClass = 0;

/// A piece of memory that travels up and down the stack, in registers. The owner of a block is whoever holds it; it is released
/// through the stack that gave it, from any thread.
///
/// A block found from a bare pointer (`block_of`) may be *unsized*: its size is zero until `measure` has asked the backbone.
/// That keeps a table lookup off the path of `free`, which does not need the size.
/// Two words, so that it is returned in registers and a miss can be a tail call.
struct Block {
  std::byte* ptr = nullptr;
  std::uint64_t size : 56 = 0;       ///< usable bytes; 0 = not measured
  std::uint64_t size_class : 8 = kNoClass;

  constexpr Block() = default;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"  // no block is of 2^56 bytes, and a mask that says so may cost an instruction
  constexpr Block(std::byte* p, std::size_t bytes, unsigned c = kNoClass) : ptr(p), size(bytes), size_class(c) {}
#pragma GCC diagnostic pop

  constexpr explicit operator bool() const { return ptr != nullptr; }
  constexpr std::byte* end() const { return ptr + size; }
  constexpr unsigned class_index() const { return static_cast<unsigned>(size_class); }
  constexpr bool is_unsized() const { return size == 0; }
  constexpr Block shrunk_by(std::size_t n) const { return {ptr, size > n ? size - n : 0, class_index()}; }
  constexpr Block grown_by(std::size_t n) const { return {ptr, size ? size + n : 0, class_index()}; }
};
static_assert(sizeof(Block) == 16, "a block travels in two registers");

/// What became of a release that was tried at once: refused, and nothing has happened; checked, and the block is to go below; or done.
enum class Tried : std::uint8_t { refused, checked, done };

}  // namespace mortise
