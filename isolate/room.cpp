// room.cpp: the kernel's own rules.
#include "room.hpp"

#include <fcntl.h>
#include <sys/sysinfo.h>

#include "raw.hpp"

namespace mortise::isolate {
namespace {

/// vm.overcommit_memory = 1.
bool gives_all() noexcept {
  char mode = '0';
  const long fd = raw_syscall(SYS_open, as_long("/proc/sys/vm/overcommit_memory"), O_RDONLY | O_CLOEXEC);
  if (failed(fd)) return false;
  raw_syscall(SYS_read, fd, as_long(&mode), 1);
  raw_syscall(SYS_close, fd);
  return mode == '1';
}

}  // namespace

bool has_addresses(std::uintptr_t low, std::size_t bytes) noexcept {
  constexpr std::uintptr_t kEnd = (1ull << 47) - kPage;
  bytes = page_ceil(bytes);
  return bytes > 0 && bytes <= kEnd && low <= kEnd - bytes;
}

bool is_too_much(std::size_t bytes) noexcept {
  constexpr std::size_t kAnyMachineHas = 256u << 20;  // or nothing would run on it
  struct sysinfo machine{};
  if (bytes <= kAnyMachineHas || failed(raw_syscall(SYS_sysinfo, as_long(&machine)))) return false;
  return bytes / machine.mem_unit > machine.totalram + machine.totalswap && !gives_all();
}

}  // namespace mortise::isolate
