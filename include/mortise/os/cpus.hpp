// How many CPUs there are and how many this process may use.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mortise/os/syscall.hpp"

namespace mortise::os {

inline constexpr unsigned kCpusMax = 1024;

struct CpuSet {
  std::uint64_t words[kCpusMax / 64] = {};
};

/// CPUs in this process's affinity mask; at least one.
inline unsigned cpus_allowed() noexcept {
  CpuSet set;
  const long bytes = syscall(SYS_sched_getaffinity, 0L, sizeof set, &set);
  unsigned count = 0;
  for (long i = 0; i < bytes / 8; ++i) count += static_cast<unsigned>(__builtin_popcountll(set.words[i]));
  return count ? count : 1;
}

/// False on machines whose CPU numbers go beyond tables of kCpusMax entries: the kernel refuses a mask that is too short.
inline bool cpus_fit_tables() noexcept {
  constexpr long kInvalid = -22;
  CpuSet set;
  return syscall(SYS_sched_getaffinity, 0L, sizeof set, &set) != kInvalid;
}

namespace detail {
/// Reads a small file into `buffer`, zero-terminated; the bytes read, 0 when it is not there.
inline std::size_t slurp(const char* path, char* buffer, std::size_t capacity) noexcept {
  constexpr long kAtCwd = -100, kReadOnlyCloexec = 02000000;
  const long fd = syscall(SYS_openat, kAtCwd, path, kReadOnlyCloexec, 0L);
  if (fd < 0) return 0;
  const long n = syscall(SYS_read, fd, buffer, capacity - 1);
  syscall(SYS_close, fd);
  buffer[n > 0 ? n : 0] = 0;
  return n > 0 ? static_cast<std::size_t>(n) : 0;
}
inline const char* read_number(const char* s, std::uint64_t& value) noexcept {
  while (*s == ' ') ++s;
  if (*s < '0' || *s > '9') return nullptr;
  for (value = 0; *s >= '0' && *s <= '9'; ++s) value = value * 10 + static_cast<std::uint64_t>(*s - '0');
  return s;
}
}  // namespace detail

/// CPUs that the control group's quota amounts to, rounded up; `none` when there is no quota. Reads files: call once, at start.
inline unsigned cpus_in_quota(unsigned none) noexcept {
  char text[128];
  std::uint64_t quota = 0, period = 0;
  if (detail::slurp("/sys/fs/cgroup/cpu.max", text, sizeof text)) {  // version 2: "QUOTA PERIOD" or "max PERIOD"
    const char* rest = detail::read_number(text, quota);
    if (!rest || !detail::read_number(rest, period)) return none;
  } else {  // version 1: two files; -1 means no quota
    if (!detail::slurp("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", text, sizeof text) || !detail::read_number(text, quota)) return none;
    if (!detail::slurp("/sys/fs/cgroup/cpu/cpu.cfs_period_us", text, sizeof text) || !detail::read_number(text, period)) return none;
  }
  if (!quota || !period) return none;
  const std::uint64_t cpus = (quota + period - 1) / period;
  return cpus && cpus < none ? static_cast<unsigned>(cpus) : none;
}

}  // namespace mortise::os
