// The program break: the classic source of heap memory.
#pragma once

#include <cstddef>

#include "mortise/core/bits.hpp"
#include "mortise/os/syscall.hpp"

namespace mortise::os {

/// The current end of the data segment.
inline std::byte* break_now() noexcept { return reinterpret_cast<std::byte*>(syscall(SYS_brk, 0L)); }

/// Moves the end to `to`; true when the kernel did. Others (libc's own sbrk) may move it too: check before and after.
inline bool break_to(std::byte* to) noexcept { return syscall(SYS_brk, to) == reinterpret_cast<long>(to); }

}  // namespace mortise::os
