// What an allocator asks of the kernel through libc, marked while a call is being timed. glibc's own malloc calls the
// kernel from within, past these; for it, and for allocators with system calls of their own, examine() looks at the
// block afterwards.
#include <errno.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/types.h>

#include "cli/latency/timing.hpp"
#include "mortise/os/syscall.hpp"

using namespace mortise;
using namespace mortise::latency;

namespace {

template <class... A> long call(KernelCall what, long number, A... arguments) noexcept {
  if (self.is_inside) self.kernel_calls |= what;
  const long result = os::syscall(number, arguments...);
  if (result >= 0 || result < -4095) return result;
  errno = static_cast<int>(-result);
  return -1;
}

}  // namespace

extern "C" {

MORTISE_EXPORT void* mmap(void* at, size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  return reinterpret_cast<void*>(call(kMmap, SYS_mmap, at, bytes, protection, flags, file, offset));
}
MORTISE_EXPORT void* mmap64(void* at, size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  return reinterpret_cast<void*>(call(kMmap, SYS_mmap, at, bytes, protection, flags, file, offset));
}
MORTISE_EXPORT int munmap(void* at, size_t bytes) noexcept {
  return static_cast<int>(call(kMunmap, SYS_munmap, at, bytes));
}
MORTISE_EXPORT int madvise(void* at, size_t bytes, int advice) noexcept {
  return static_cast<int>(call(kMadvise, SYS_madvise, at, bytes, advice));
}
MORTISE_EXPORT int mprotect(void* at, size_t bytes, int protection) noexcept {
  return static_cast<int>(call(kMprotect, SYS_mprotect, at, bytes, protection));
}
MORTISE_EXPORT void* mremap(void* at, size_t old_bytes, size_t bytes, int flags, ...) noexcept {
  va_list more;
  va_start(more, flags);
  void* const target = flags & MREMAP_FIXED ? va_arg(more, void*) : nullptr;
  va_end(more);
  return reinterpret_cast<void*>(call(kMremap, SYS_mremap, at, old_bytes, bytes, flags, target));
}
MORTISE_EXPORT int sched_yield() noexcept { return static_cast<int>(call(kYield, SYS_sched_yield)); }
}
