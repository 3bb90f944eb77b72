// Signals that wait while a thread is at something that no handler may find half done.
#pragma once

#include <signal.h>

#include <cstdint>

#include "mortise/os/syscall.hpp"

namespace mortise::abi {

constexpr std::uint64_t bit(int signal) noexcept { return std::uint64_t{1} << (signal - 1); }

#ifdef __GLIBC__
inline constexpr int kAllThreads = 33;  // SIGSETXID
#else
inline constexpr int kAllThreads = 34;  // musl's SIGSYNCCALL
#endif

/// The kernel ends a process whose fault is blocked, and a filter, a sanitizer or a runtime may have a handler that mends it. With the last
/// one libc has all threads do something, and whoever waits for them may hold a lock that a thread waits for here.
inline constexpr std::uint64_t kNeverBlocked =
    bit(SIGSEGV) | bit(SIGBUS) | bit(SIGILL) | bit(SIGFPE) | bit(SIGTRAP) | bit(SIGSYS) | bit(kAllThreads);

/// Blocks all others as well, and returns which were blocked before. What the program blocks stays so: one that was sent may be waiting.
inline std::uint64_t block_signals(std::uint64_t others = ~kNeverBlocked) noexcept {
  std::uint64_t before = 0;
  os::syscall(SYS_rt_sigprocmask, SIG_BLOCK, &others, &before, sizeof before);
  return before;
}
inline void set_signals(const std::uint64_t& blocked) noexcept {
  os::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &blocked, nullptr, sizeof blocked);
}

}  // namespace mortise::abi
