// raw.hpp: system calls without libc in between.
//
// Most of the runtime may not touch errno (it lives in memory that is being moved), may not be a cancellation point,
// and may not meet its own replacements of libc's entry points. These calls return the kernel's answer: a value, or
// -errno.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>

namespace mortise::isolate {

inline long raw_syscall(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) noexcept {
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}

inline bool failed(long result) noexcept { return static_cast<unsigned long>(result) > -4096ul; }

template <class T>
long as_long(T* p) noexcept {
  return reinterpret_cast<long>(p);
}

/// The kernel's own answers: this process and this kernel thread, whatever the program is told by getpid().
inline int raw_getpid() noexcept { return static_cast<int>(raw_syscall(SYS_getpid)); }
inline int raw_gettid() noexcept { return static_cast<int>(raw_syscall(SYS_gettid)); }

/// A deadline before the clock's beginning is over; the kernel would take it for a mistake.
inline bool is_over(const timespec* deadline) noexcept { return deadline && deadline->tv_sec < 0; }

/// Sleeps while `*word == expected`, at most until the absolute `deadline` on `clock`. Shared form: the key is the file
/// and offset behind the page, so threads in different address spaces meet. Returns 0 or -errno (EAGAIN, EINTR,
/// ETIMEDOUT).
inline long futex_wait(const void* word, std::uint32_t expected, const timespec* deadline = nullptr,
                       clockid_t clock = CLOCK_MONOTONIC) noexcept {
  if (is_over(deadline)) return -ETIMEDOUT;
  const int op = FUTEX_WAIT_BITSET | (clock == CLOCK_REALTIME ? FUTEX_CLOCK_REALTIME : 0);
  return raw_syscall(SYS_futex, as_long(word), op, expected, as_long(deadline), 0, FUTEX_BITSET_MATCH_ANY);
}

/// Wakes up to `count` sleepers on `*word`.
inline long futex_wake(const void* word, int count) noexcept {
  return raw_syscall(SYS_futex, as_long(word), FUTEX_WAKE, count);
}

/// Of the clock that nobody sets.
inline std::int64_t now_ns() noexcept {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * std::int64_t{1'000'000'000} + t.tv_nsec;
}

inline constexpr int kEveryone = 0x7fffffff;
inline constexpr std::size_t kPage = 4096;  // x86-64 has no other base page

inline constexpr std::uintptr_t page_floor(std::uintptr_t a) noexcept { return a & ~(kPage - 1); }
inline constexpr std::uintptr_t page_ceil(std::uintptr_t a) noexcept { return (a + kPage - 1) & ~(kPage - 1); }

}  // namespace mortise::isolate
