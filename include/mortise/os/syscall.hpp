// System calls without libc: no errno is touched, no cancellation point is crossed, and a thread without thread-local storage
// (the purge thread) may use them. Results are as the kernel gives them: negative numbers are -errno.
#pragma once

#include <sys/syscall.h>

#include <cstddef>

#include "mortise/core/inline.hpp"

namespace mortise::os {

/// Pointers and integers alike become words.
template <class T> MORTISE_HOT long as_word(T* p) noexcept { return reinterpret_cast<long>(p); }
MORTISE_HOT long as_word(std::nullptr_t) noexcept { return 0; }
template <class T> MORTISE_HOT long as_word(T n) noexcept { return static_cast<long>(n); }

template <class... A> inline long syscall(long number, A... args) noexcept {
  static_assert(sizeof...(A) <= 6, "the kernel takes at most six arguments");
  long a[6] = {as_word(args)...};
#if defined(__x86_64__)
  long result;
  register long r10 asm("r10") = a[3];
  register long r8 asm("r8") = a[4];
  register long r9 asm("r9") = a[5];
  asm volatile("syscall" : "=a"(result) : "0"(number), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 asm("x8") = number;
  register long x0 asm("x0") = a[0];
  register long x1 asm("x1") = a[1];
  register long x2 asm("x2") = a[2];
  register long x3 asm("x3") = a[3];
  register long x4 asm("x4") = a[4];
  register long x5 asm("x5") = a[5];
  asm volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
#else
#error "mortise supports x86-64 and aarch64"
#endif
}

}  // namespace mortise::os
