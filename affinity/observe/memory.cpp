// Reading memory that may not be there, and memory of our own.
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "affinity/seam.hpp"
#include "mortise/data/meta_arena.hpp"
#include "mortise/os/syscall.hpp"

namespace mortise::affinity {
namespace {
constinit MetaArena arena{};
}  // namespace

std::byte* analysis_memory(std::size_t bytes) noexcept { return arena.take(bytes); }

/// The kernel copies, and says how much it could.
bool read_memory(std::uintptr_t from, void* to, std::size_t bytes) noexcept {
  const iovec local{to, bytes}, remote{reinterpret_cast<void*>(from), bytes};
  const long got = os::syscall(SYS_process_vm_readv, os::syscall(SYS_getpid), &local, 1L, &remote, 1L, 0L);
  return got == static_cast<long>(bytes);
}

}  // namespace mortise::affinity
