// Huge pages for what is in memory already, where that costs little.
#pragma once

#include <linux/mman.h>

#include <cstddef>

#include "mortise/core/units.hpp"
#include "mortise/os/residency.hpp"
#include "mortise/os/syscall.hpp"

namespace mortise::os {

inline constexpr std::size_t kGatheredBytes = 2_MiB;

/// Makes one huge page, now, of the 2 MiB at `at`, a multiple of that, if at least half of them are in memory. Others who touch them
/// meanwhile wait while they are copied. False, and nothing has changed, where they are not, or the system cannot (before Linux 6.1) or
/// finds no such page.
inline bool gather(std::byte* at, std::size_t page_bytes) noexcept {
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
  return resident_bytes(at, kGatheredBytes, page_bytes, kGatheredBytes) >= kGatheredBytes / 2 &&
         syscall(SYS_madvise, at, kGatheredBytes, MADV_COLLAPSE) == 0;
}

}  // namespace mortise::os
