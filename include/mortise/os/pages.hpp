// Pages from the kernel: map, unmap, purge, move. Sizes are bytes and multiples of the page size.
#pragma once

#include <linux/mman.h>
#include <sys/mman.h>

#include <cstddef>

#include "mortise/core/bits.hpp"
#include "mortise/os/isolation.hpp"

namespace mortise::os {

inline bool is_mapped_result(long r) { return r < -4095 || r >= 0; }

/// Maps `bytes` of zeroed, private memory anywhere. Null when the system refuses.
inline std::byte* map(std::size_t bytes) noexcept {
  const long r = memory_call(SYS_mmap, 0, static_cast<long>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return is_mapped_result(r) ? reinterpret_cast<std::byte*>(r) : nullptr;
}

/// The same for a range of which little may ever be touched: not counted against the system's commitment.
inline std::byte* map_sparse(std::size_t bytes) noexcept {
  constexpr long kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  const long r = memory_call(SYS_mmap, 0, static_cast<long>(bytes), PROT_READ | PROT_WRITE, kFlags, -1, 0);
  return is_mapped_result(r) ? reinterpret_cast<std::byte*>(r) : nullptr;
}

enum class MapAt { done, taken, refused };

/// Maps `bytes` of zeroed, private memory at exactly `at`. `taken`: something else lies there. `refused`: no memory.
inline MapAt map_at(std::byte* at, std::size_t bytes) noexcept {
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
  const long r = memory_call(SYS_mmap, reinterpret_cast<long>(at), static_cast<long>(bytes), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (r == reinterpret_cast<long>(at)) return MapAt::done;
  if (!is_mapped_result(r)) return r == -17 /* EEXIST */ ? MapAt::taken : MapAt::refused;
  memory_call(SYS_munmap, r, static_cast<long>(bytes));  // kernels before 4.17 take the flag for a hint
  return MapAt::taken;
}

/// The same in huge pages of 2 MiB that were set aside; `at` and `bytes` are multiples of it. Refused when none are left.
inline MapAt map_huge_at(std::byte* at, std::size_t bytes) noexcept {
  constexpr int kTwoMiB = 21 << MAP_HUGE_SHIFT;
  const long r = memory_call(SYS_mmap, reinterpret_cast<long>(at), static_cast<long>(bytes), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_HUGETLB | kTwoMiB, -1, 0);
  if (r == reinterpret_cast<long>(at)) return MapAt::done;
  if (!is_mapped_result(r)) return r == -17 /* EEXIST */ ? MapAt::taken : MapAt::refused;
  memory_call(SYS_munmap, r, static_cast<long>(bytes));
  return MapAt::taken;
}

inline void unmap(std::byte* at, std::size_t bytes) noexcept {
  memory_call(SYS_munmap, reinterpret_cast<long>(at), static_cast<long>(bytes));
}

/// Gives the pages back; the range stays mapped and reads as zero when touched again. `top` shows the fall at once.
inline bool purge(std::byte* at, std::size_t bytes) noexcept {
  return memory_call(SYS_madvise, reinterpret_cast<long>(at), static_cast<long>(bytes), MADV_DONTNEED) == 0;
}

/// Brings the pages of a range in now, so that no first touch meets the kernel. False when the kernel cannot (before Linux 5.14).
inline bool prefault(std::byte* at, std::size_t bytes) noexcept {
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
  return syscall(SYS_madvise, at, bytes, MADV_POPULATE_WRITE) == 0;
}

/// Brings the pages of a range in and keeps them from being swapped out. False beyond the limit on locked memory (RLIMIT_MEMLOCK).
inline bool lock_pages(std::byte* at, std::size_t bytes) noexcept { return syscall(SYS_mlock, at, bytes) == 0; }

/// Takes away and gives back all access to whole pages. What lies in them stays. False when the system refuses.
inline bool forbid(std::byte* at, std::size_t bytes) noexcept {
  return memory_call(SYS_mprotect, reinterpret_cast<long>(at), static_cast<long>(bytes), PROT_NONE) == 0;
}
inline bool permit(std::byte* at, std::size_t bytes) noexcept {
  return memory_call(SYS_mprotect, reinterpret_cast<long>(at), static_cast<long>(bytes), PROT_READ | PROT_WRITE) == 0;
}

/// Asks for huge pages in a range: a first touch then brings 2 MiB at once, and the range needs fewer TLB entries.
/// Without effect where the system has them switched off or always on.
inline void advise_huge(std::byte* at, std::size_t bytes) noexcept { syscall(SYS_madvise, at, bytes, MADV_HUGEPAGE); }

/// Keeps huge pages out of a range, also where the system has them always on.
inline void advise_no_huge(std::byte* at, std::size_t bytes) noexcept { syscall(SYS_madvise, at, bytes, MADV_NOHUGEPAGE); }

/// Moves the pages of `from` to `to`, which is mapped memory whose contents are lost. `from` is left unmapped.
inline bool move(std::byte* from, std::byte* to, std::size_t bytes) noexcept {
  const long size = static_cast<long>(bytes);
  return memory_call(SYS_mremap, reinterpret_cast<long>(from), size, size, MREMAP_MAYMOVE | MREMAP_FIXED,
                     reinterpret_cast<long>(to)) == reinterpret_cast<long>(to);
}

}  // namespace mortise::os
