// The program break: the classic source of heap memory.
#pragma once

#include <unistd.h>

#include <cstddef>

#include "mortise/core/bits.hpp"
#include "mortise/os/syscall.hpp"

namespace mortise::os {

// glibc keeps its own account of where the break is and sets it from there: moved behind its back, the break would come down again with
// its next sbrk, and take our memory with it.

/// The current end of the data segment.
inline std::byte* break_now() noexcept {
#ifdef __GLIBC__
  return static_cast<std::byte*>(::sbrk(0));
#else
  return reinterpret_cast<std::byte*>(syscall(SYS_brk, 0L));
#endif
}

/// Moves the end to `to`; true when the kernel did. Others (libc's own sbrk) may move it too: check before and after.
inline bool break_to(std::byte* to) noexcept {
#ifdef __GLIBC__
  return ::brk(to) == 0;
#else
  return syscall(SYS_brk, to) == reinterpret_cast<long>(to);
#endif
}

}  // namespace mortise::os
