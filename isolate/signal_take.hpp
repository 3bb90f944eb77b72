// signal_take.hpp: the kernel's sigtimedwait.
#pragma once

#include <csignal>
#include <cstdint>
#include <ctime>

#include "raw.hpp"

namespace mortise::isolate {

inline constexpr long kMaskBytes = 8;

/// Until `deadline`, in nanoseconds of now_ns() (a negative one: for ever); by `make`, which makes the call. The kernel's answer.
template <class Make>
long take_signal_by(Make make, std::uint64_t set, siginfo_t* info, std::int64_t deadline) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  std::int64_t left = deadline < 0 ? 0 : deadline - now_ns();
  if (left < 0) left = 0;
  const timespec timeout{left / kSecond, left % kSecond};
  return make(SYS_rt_sigtimedwait, as_long(&set), as_long(info), deadline < 0 ? 0 : as_long(&timeout), kMaskBytes, 0, 0);
}

inline long take_signal(std::uint64_t set, siginfo_t* info, std::int64_t deadline) noexcept {
  const auto make = [](long number, long a, long b, long c, long d, long e, long f) { return raw_syscall(number, a, b, c, d, e, f); };
  return take_signal_by(make, set, info, deadline);
}

/// One that is pending now.
inline long take_pending(std::uint64_t set, siginfo_t* info) noexcept { return take_signal(set, info, 0); }

}  // namespace mortise::isolate
