// Huge pages for what is in memory already, where that costs little.
#pragma once

#include <linux/errno.h>
#include <linux/mman.h>

#include <cstddef>

#include "mortise/core/units.hpp"
#include "mortise/os/syscall.hpp"

namespace mortise::os {

inline constexpr std::size_t kGatheredBytes = 2_MiB;

/// Makes one huge page, now, of the 2 MiB at `at`, a multiple of that, all of which can be touched and some of which has been. Others who
/// touch them meanwhile wait while they are copied. False, and nothing has changed, where the system cannot (before Linux 6.1) or finds no
/// such page.
inline bool gather(std::byte* at) noexcept {
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
  long result = -EAGAIN;  // a page may be on its way between two lists of the system's
  for (unsigned tries = 0; tries < 3 && result == -EAGAIN; ++tries) result = syscall(SYS_madvise, at, kGatheredBytes, MADV_COLLAPSE);
  return result == 0;
}

}  // namespace mortise::os
