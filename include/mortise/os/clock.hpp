// Time, coarse enough to be nearly free: deadlines of purging are all that the allocators need it for.
#pragma once

#include <time.h>

#include <cstdint>

#include "mortise/os/syscall.hpp"

namespace mortise::os {

/// Milliseconds since boot, at the resolution of the kernel's tick. Uses the vDSO through libc; no system call.
inline std::uint64_t now_ms() noexcept {
  struct timespec ts{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
  return static_cast<std::uint64_t>(ts.tv_sec) * 1000 + static_cast<std::uint64_t>(ts.tv_nsec) / 1'000'000;
}

}  // namespace mortise::os
