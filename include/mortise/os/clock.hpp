// Time: coarse enough to be nearly free for the deadlines of purging, all that the allocators need it for; fine for instruments.
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

/// The CPU's constant-rate counter, in its own ticks; about 10 ns, no system call, not a serialising instruction. Compare
/// readings of two CPUs only where the kernel's clock source is this counter.
inline std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
  std::uint32_t low, high;
  asm volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
  return std::uint64_t{high} << 32 | low;
#else
  std::uint64_t now;
  asm volatile("isb; mrs %0, cntvct_el0" : "=r"(now) : : "memory");
  return now;
#endif
}

}  // namespace mortise::os
