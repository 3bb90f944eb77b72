// Random bits for the placement of the heap and the keys of guards.
#pragma once

#include <time.h>

#include <cstdint>

#include "mortise/os/syscall.hpp"

namespace mortise::os {

/// 64 random bits from the kernel; where it has none yet (early boot), mixed from addresses and the clock.
inline std::uint64_t entropy() noexcept {
  std::uint64_t bits = 0;
  constexpr unsigned kNonBlock = 1;
  if (syscall(SYS_getrandom, &bits, sizeof bits, kNonBlock) == sizeof bits) return bits;
  struct timespec ts{};
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &ts);
  bits = reinterpret_cast<std::uintptr_t>(&bits) ^ (static_cast<std::uint64_t>(ts.tv_nsec) << 20) ^ static_cast<std::uint64_t>(ts.tv_sec);
  bits ^= bits >> 31;
  bits *= 0x9E3779B97F4A7C15ull;
  return bits ^ (bits >> 29);
}

}  // namespace mortise::os
