// Pointers that lie equally far apart, written two at a time: the blocks of a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace mortise {

/// Writes `first`, `first + step`, ..., `n` of them, to `out`. O(n), some two instructions each.
inline void write_strided(std::byte** out, std::byte* first, std::size_t step, unsigned n) noexcept {
  using Pair [[gnu::vector_size(2 * sizeof(std::uintptr_t))]] = std::uintptr_t;
  const auto at = reinterpret_cast<std::uintptr_t>(first);
  std::byte** const last = out + n / 2 * 2;
  Pair pair = {at, at + step};
  for (const Pair skip = {2 * step, 2 * step}; out != last; out += 2, pair += skip) std::memcpy(out, &pair, sizeof pair);
  if (n % 2) *out = reinterpret_cast<std::byte*>(pair[0]);
}

}  // namespace mortise
