// Having a core's data to oneself by running on that core: no system call, where membarrier would be one that a filter may end us for.
#pragma once

#include <cstdint>

#include "mortise/os/rseq.hpp"

namespace mortise::os {

/// Whether the calling thread runs on the core `index` now. Then no other thread is in a section of that core: those that were stopped in
/// one begin it again, and they, and whoever runs there later, find what was written before this call. The thread may go elsewhere at once.
inline bool rseq_alone_on(const RseqArea& area, std::uint32_t index) noexcept {
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  const bool is_there = rseq_index(area) == index;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  return is_there;
}

}  // namespace mortise::os
