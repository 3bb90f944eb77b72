// Reading memory that may not be there, and memory of our own.
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
bool read_memory(const Read* reads, unsigned count, std::size_t bytes) noexcept {
  if (is_shut_in.load(Order::relaxed)) return false;
  iovec local[Read::kMax], remote[Read::kMax];
  for (unsigned i = 0; i < count; ++i) local[i] = {reads[i].to, bytes}, remote[i] = {reinterpret_cast<void*>(reads[i].from), bytes};
  const long n = static_cast<long>(count);
  return os::syscall(SYS_process_vm_readv, os::syscall(SYS_getpid), local, n, remote, n, 0L) == static_cast<long>(count * bytes);
}

bool read_memory(std::uintptr_t from, void* to, std::size_t bytes) noexcept {
  const Read one{from, to};
  return read_memory(&one, 1, bytes);
}

}  // namespace mortise::affinity
