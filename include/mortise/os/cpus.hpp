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

}  // namespace mortise::os
