// How many blocks of each size class a magazine holds for so many bytes. Static facts: a division would be a good part of a miss.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "mortise/core/core.hpp"
#include "mortise/os/rseq.hpp"

namespace mortise {

inline constexpr unsigned kMagazineLeast = 2;  ///< a block that is freed, and one that is asked for

/// By class of `Classes`: the blocks that are `bytes`, never more than `most`, nor fewer than kMagazineLeast.
template <SizeMap Classes> constexpr auto magazine_slots(std::size_t bytes, std::size_t most) noexcept {
  std::array<std::uint16_t, Classes::kCount + 1> slots{};
  for (unsigned c = 1; c <= Classes::kCount; ++c) {
    const std::size_t fit = bytes / Classes::size_of(c);
    slots[c] = static_cast<std::uint16_t>(fit < kMagazineLeast ? kMagazineLeast : fit > most ? most : fit);
  }
  return slots;
}

/// The bytes that all magazines of a core may hold as they are. O(classes).
template <SizeMap Classes, class Rack> std::size_t room_bytes(const Rack& rack) noexcept {
  std::size_t bytes = 0;
  for (unsigned c = 1; c <= Classes::kCount; ++c) bytes += rack.limit_now(c) * Classes::size_of(c);
  return bytes;
}

}  // namespace mortise
