// refuse.cpp: what is known not to work, found before the first thread.
#include "refuse.hpp"

#include <atomic>
#include <cstring>
#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "maps.hpp"
#include "message.hpp"
#include "proc.hpp"

namespace mortise::isolate {

void refuse_what_cannot_work() noexcept {
  struct {
    const char* symbol;
    const char* name;
  } const sanitizers[] = {{"__asan_init", "AddressSanitizer"},
                          {"__tsan_init", "ThreadSanitizer"},
                          {"__msan_init", "MemorySanitizer"},
                          {"__hwasan_init", "HWAddressSanitizer"}};
  for (const auto& s : sanitizers)
    if (dlsym(RTLD_DEFAULT, s.symbol))
      refuse(
          "the program is built with %s, whose shadow memory belongs to one address space: unsupported; build it "
          "without",
          s.name);
  Maps maps;
  for (Mapping m; maps.next(m);)
    for (const char* const name : {"anon_inode:[io_uring]", "/[aio] (deleted)"})
      if (std::strcmp(m.name, name) == 0) refuse_kernel_object(name);
}

void refuse_own_thread() noexcept {
  refuse(
      "the program makes threads by clone(CLONE_VM) of its own: they would share one address space only: unsupported");
}

void refuse_kernel_object(const char* what) noexcept {
  refuse("%s: device or kernel object bound to one address space: unsupported", what);
}

bool denies_kernel_object(const char* what) noexcept {
  static constinit std::atomic<bool> told{false};
  const bool denies = !setting("MORTISE_THREADS_ANYWAY");
  if (!told.exchange(true)) say("%s: kernel object bound to one address space: %s", what, denies ? "answered ENOSYS" : "unsupported");
  return denies;
}

bool is_zero_device(int fd) noexcept {
  struct stat status;
  return fstat(fd, &status) == 0 && S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 5);
}

void refuse_device(int fd) noexcept {
  struct stat status;
  if (fstat(fd, &status) != 0) return;
  constexpr unsigned kMemoryDevices = 1;  // /dev/zero and its like behave as plain memory
  if (S_ISCHR(status.st_mode) && major(status.st_rdev) != kMemoryDevices) refuse_kernel_object("mmap of a device");
  char path[40], target[64] = "";
  format_path(path, "/proc/self/fd/", fd, "");
  const long length = readlink(path, target, sizeof target - 1);
  if (length > 0 && std::strncmp(target, "anon_inode:", 11) == 0) refuse_kernel_object(target + 11);
}

}  // namespace mortise::isolate
