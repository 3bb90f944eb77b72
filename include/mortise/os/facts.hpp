// Facts of the machine, read once at start and never baked in: page size, CPUs, second-level cache, restartable sequences.
#pragma once

#include <sys/auxv.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstddef>

#include "mortise/core/units.hpp"
#include "mortise/os/control_group.hpp"
#include "mortise/os/cpus.hpp"
#include "mortise/os/nodes.hpp"
#include "mortise/os/rseq.hpp"

namespace mortise::os {

/// What a stack is told at start, once, by whoever owns it (the malloc ABI, a program that embeds a heap, a test).
struct Facts {
  std::size_t page_bytes = 4096;
  unsigned cpus = 1;            ///< CPUs this process may keep busy: affinity and control-group quota taken together
  std::size_t second_cache_bytes = 1_MiB;  ///< of a core; where nobody tells, what many have
  RseqArea rseq;                ///< where threads find their core index
  RseqArea own;                 ///< where each thread's own area lies, which stands in for the kernel's
  bool can_restart = false;     ///< running sections of other cores can be restarted (membarrier)
  void (*watch_thread)() noexcept = nullptr;  ///< asks that `detach` be called when the calling thread ends
  bool numbers_threads = true;  ///< false: of areas that are the threads' own, another heap hands out the indices
  const HomeNode* home = nullptr;  ///< of a heap that serves one memory node: which; null: it serves all
  std::byte* window = nullptr;  ///< where a source lays its window of addresses; null: where there is room
};

/// The size of a core's second-level cache; 0 where the processor does not tell a program.
inline std::size_t second_cache_bytes() noexcept {
#if defined(__x86_64__)
  constexpr unsigned kSecondCache = 0x8000'0006;  // of Intel and AMD alike, in KiB
  unsigned a, b, c, d;
  __cpuid(kSecondCache, a, b, c, d);
  return (c >> 16) * 1_KiB;
#else
  return 0;
#endif
}

/// Reads the machine. `own_area` is the calling thread's stand-in for the kernel's rseq area.
inline Facts read_facts(const OwnArea* own_area) noexcept {
  // An address to the compiler, which otherwise keeps its distance from the thread's own as a vector, loaded in a way that ld cannot relax.
  asm("" : "+r"(own_area));
  Facts facts;
  if (const std::size_t page = ::getauxval(AT_PAGESZ)) facts.page_bytes = page;
  facts.cpus = cpus_in_quota(cpus_allowed());
  if (const std::size_t bytes = second_cache_bytes()) facts.second_cache_bytes = bytes;
  facts.rseq = find_rseq_area(own_area);
  facts.own = own_rseq_area(own_area);
  facts.can_restart = facts.rseq.is_kernels && rseq_register_restart();
  return facts;
}

}  // namespace mortise::os
