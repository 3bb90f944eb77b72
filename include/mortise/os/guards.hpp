// Pages that nobody may touch.
#pragma once

#include <sys/syscall.h>

#include <cstddef>

#include "mortise/os/isolation.hpp"
#include "mortise/os/pages.hpp"

namespace mortise::os {

/// Takes away all access to whole pages whose contents nobody needs, and gives it back; what lay in them is gone. Markers in the page
/// table where the system has them (Linux 6.13): one call, they split no mapping and stay within every limit; else the pages go back
/// and the protection changes. False when the system refuses: giving back may fail at a limit on memory where there are no markers.
inline bool set_guard(std::byte* at, std::size_t bytes) noexcept {
  constexpr int kGuardInstall = 102;  // MADV_GUARD_INSTALL
  if (memory_call(SYS_madvise, reinterpret_cast<long>(at), static_cast<long>(bytes), kGuardInstall) == 0) return true;
  purge(at, bytes);
  return forbid(at, bytes);
}
inline bool remove_guard(std::byte* at, std::size_t bytes) noexcept {
  constexpr int kGuardRemove = 103;  // MADV_GUARD_REMOVE
  memory_call(SYS_madvise, reinterpret_cast<long>(at), static_cast<long>(bytes), kGuardRemove);
  return permit(at, bytes);  // no change where a marker stood
}

}  // namespace mortise::os
