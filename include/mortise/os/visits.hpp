// Restarting sections where membarrier is refused, as by a seccomp filter that a program has installed since its start.
#pragma once

#include "mortise/os/cpus.hpp"
#include "mortise/os/isolation.hpp"
#include "mortise/os/syscall.hpp"

namespace mortise::os {

/// As `rseq_restart_all`: the calling thread visits every CPU, and whoever ran a section there was preempted by it. False when it may not,
/// and then nothing is said of any section. The thread's CPUs are afterwards what they were. O(CPUs) system calls.
inline bool rseq_restart_by_visits() noexcept {
  constexpr long kInvalid = -22;  // offline, or none of this process's: no section runs there
  CpuSet mine;
  if (may_be_isolated() || syscall(SYS_sched_getaffinity, 0L, sizeof mine, &mine) <= 0) return false;
  bool all = true;
  for (unsigned cpu = 0; cpu < kCpusMax && all; ++cpu) {
    CpuSet one;
    one.words[cpu / 64] = std::uint64_t{1} << (cpu % 64);
    const long result = syscall(SYS_sched_setaffinity, 0L, sizeof one, &one);
    all = result == 0 || result == kInvalid;
  }
  syscall(SYS_sched_setaffinity, 0L, sizeof mine, &mine);
  return all;
}

}  // namespace mortise::os
