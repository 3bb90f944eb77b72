// Pages from the kernel: map, unmap, purge, move. Sizes are bytes and multiples of the page size.
#pragma once

#include <sys/mman.h>

#include <cstddef>

#include "mortise/core/bits.hpp"
#include "mortise/os/syscall.hpp"

namespace mortise::os {

inline bool is_mapped_result(long r) { return r < -4095 || r >= 0; }

/// Maps `bytes` of zeroed, private memory anywhere. Null when the system refuses.
inline std::byte* map(std::size_t bytes) noexcept {
  const long r = syscall(SYS_mmap, 0L, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1L, 0L);
  return is_mapped_result(r) ? reinterpret_cast<std::byte*>(r) : nullptr;
}

enum class MapAt { done, taken, refused };

/// Maps `bytes` of zeroed, private memory at exactly `at`. `taken`: something else lies there. `refused`: no memory.
inline MapAt map_at(std::byte* at, std::size_t bytes) noexcept {
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
  const long r = syscall(SYS_mmap, at, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1L, 0L);
  if (r == reinterpret_cast<long>(at)) return MapAt::done;
  if (!is_mapped_result(r)) return r == -17 /* EEXIST */ ? MapAt::taken : MapAt::refused;
  syscall(SYS_munmap, r, bytes);  // kernels before 4.17 take the flag for a hint
  return MapAt::taken;
}

inline void unmap(std::byte* at, std::size_t bytes) noexcept { syscall(SYS_munmap, at, bytes); }

/// Gives the pages back; the range stays mapped and reads as zero when touched again. `top` shows the fall at once.
inline bool purge(std::byte* at, std::size_t bytes) noexcept { return syscall(SYS_madvise, at, bytes, MADV_DONTNEED) == 0; }

/// Moves the pages of `from` to `to`, which is mapped memory whose contents are lost. `from` is left unmapped.
inline bool move(std::byte* from, std::byte* to, std::size_t bytes) noexcept {
  return syscall(SYS_mremap, from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) == reinterpret_cast<long>(to);
}

}  // namespace mortise::os
