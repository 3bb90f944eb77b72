// Sleep until a word changes. The one place where threads wait in the kernel; isolation switches it to shared futexes.
#pragma once

#include <cstdint>

#include "mortise/core/inline.hpp"

#if __STDC_HOSTED__
#include <linux/futex.h>
#include <time.h>

#include "mortise/os/isolation.hpp"
#endif

namespace mortise::os {

#if __STDC_HOSTED__

/// FUTEX_PRIVATE_FLAG while all threads share one address space, 0 when they may not.
inline int futex_scope() noexcept { return may_be_isolated() ? 0 : FUTEX_PRIVATE_FLAG; }

/// Sleeps while `*word == seen`; may wake without a reason. `timeout_ns` < 0: for ever.
inline void futex_wait(const void* word, std::uint32_t seen, std::int64_t timeout_ns = -1) noexcept {
  struct timespec ts{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
  syscall(SYS_futex, word, FUTEX_WAIT | futex_scope(), seen, timeout_ns < 0 ? nullptr : &ts, nullptr, 0L);
}

inline void futex_wake(const void* word, int count) noexcept {
  syscall(SYS_futex, word, FUTEX_WAKE | futex_scope(), count, nullptr, nullptr, 0L);
}

#else

// Without an operating system a core has nothing else to do: waiting is looking again, which a sleep may always become.
MORTISE_HOT void futex_wait(const void*, std::uint32_t, std::int64_t = -1) noexcept {}
MORTISE_HOT void futex_wake(const void*, int) noexcept {}

#endif

}  // namespace mortise::os
