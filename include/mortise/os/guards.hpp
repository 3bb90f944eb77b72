// Pages that nobody may touch.
#pragma once

#include <sys/syscall.h>

#include <cstddef>

#include "mortise/os/isolation.hpp"
#include "mortise/os/pages.hpp"

namespace mortise::os {

/// Takes away all access to whole pages whose contents nobody needs, and gives it back; what lay in them is gone. Markers in the page
/// table where the system has them (Linux 6.13): one call, they split no mapping and stay within every limit; else the pages go back
/// and the protection changes. Any thread; who removes a guard knows from whoever set it.
class Guards {
 public:
  bool set(std::byte* at, std::size_t bytes) noexcept {
    constexpr int kGuardInstall = 102;  // MADV_GUARD_INSTALL
    if (memory_call(SYS_madvise, reinterpret_cast<long>(at), static_cast<long>(bytes), kGuardInstall) == 0) return true;
    __atomic_store_n(&are_protected_, true, __ATOMIC_RELAXED);
    purge(at, bytes);
    return forbid(at, bytes);
  }
  /// False when the system refuses: that may be at a limit on memory where there are no markers.
  bool remove(std::byte* at, std::size_t bytes) noexcept {
    constexpr int kGuardRemove = 103;  // MADV_GUARD_REMOVE
    const bool is_removed = memory_call(SYS_madvise, reinterpret_cast<long>(at), static_cast<long>(bytes), kGuardRemove) == 0;
    return __atomic_load_n(&are_protected_, __ATOMIC_RELAXED) ? permit(at, bytes) : is_removed;
  }

 private:
  bool are_protected_ = false;  ///< some of them: no marker stood there
};

}  // namespace mortise::os
