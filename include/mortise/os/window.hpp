// Where a heap may lay a large window of addresses without meeting anybody. Nothing is reserved: a window is only a place.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mortise/core/inline.hpp"
#include "mortise/core/units.hpp"
#include "mortise/os/entropy.hpp"
#include "mortise/os/pages.hpp"

namespace mortise::os {

// ThreadSanitizer keeps its books about most of the address space in the middle of it; programs live at the ends: below 512 GiB.
inline constexpr std::uintptr_t kLowWindowLowest = 32_GiB;
inline constexpr std::size_t kLowWindowSpread = 128_GiB;
inline constexpr std::uintptr_t kLowWindowTables = 320_GiB;
#ifdef MORTISE_THREAD_SANITIZER
inline constexpr std::size_t kWindowBytesMax = 64_GiB;
inline constexpr std::uintptr_t kWindowLowest = kLowWindowLowest;
inline constexpr std::size_t kWindowSpread = kLowWindowSpread;
#else
// Far above the program and its break, far below the libraries and stacks: left empty by kernels with 47-bit user addresses.
inline constexpr std::size_t kWindowBytesMax = 4_TiB;
inline constexpr std::uintptr_t kWindowLowest = 16_TiB;
inline constexpr std::size_t kWindowSpread = 44_TiB;
#endif
inline constexpr std::size_t kWindowStep = 2_MiB;

/// What mapping something at `at` would meet. O(1): nothing stays mapped.
inline MapAt probe(std::byte* at) noexcept {
  constexpr std::size_t kProbeBytes = 64_KiB;
  const MapAt result = map_at(at, kProbeBytes);
  if (result == MapAt::done) unmap(at, kProbeBytes);
  return result;
}

/// Whether something can be mapped at `at`, where a window is to begin, and nothing is.
inline bool is_free_window(std::byte* at) noexcept { return probe(at) == MapAt::done; }

/// A random multiple of 2 MiB at whose start nothing is mapped; null when the kernel lets nobody map there. The steps are small
/// so that the windows of several heaps may overlap but what is used of them does not meet.
inline std::byte* find_window(std::uintptr_t lowest, std::size_t spread) noexcept {
  for (unsigned tries = 0; tries < 16; ++tries) {
    auto* const at = reinterpret_cast<std::byte*>(lowest + (entropy() % (spread / kWindowStep)) * kWindowStep);
    if (probe(at) != MapAt::taken) return at;
  }
  return nullptr;
}
/// The same where windows lie, or, when all of that is taken, low: a library may be in a program that ThreadSanitizer watches.
inline std::byte* find_window() noexcept {
  std::byte* const at = find_window(kWindowLowest, kWindowSpread);
  return at ? at : find_window(kLowWindowLowest, kLowWindowSpread);
}
/// Where the tables of a window lie: behind it, and of a low one, which ends where the program's room does, in what is left of that.
inline std::byte* side_of(std::byte* window, std::size_t bytes) noexcept {
  const bool is_low = reinterpret_cast<std::uintptr_t>(window) < kLowWindowLowest + kLowWindowSpread;
  return is_low ? reinterpret_cast<std::byte*>(kLowWindowTables) : window + bytes;
}

}  // namespace mortise::os
