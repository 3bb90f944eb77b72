// What an allocator asks of the kernel through libc, marked while a call is being timed. glibc's own malloc calls the
// kernel from within, past these; for it, and for allocators with system calls of their own, examine() looks at the
// block afterwards. Others may stand between us and libc (caches of mappings, libraries that must know what is unmapped):
// the next function is called, and not the kernel.
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/types.h>

#include "cli/latency/timing.hpp"
#include "mortise/os/syscall.hpp"

using namespace mortise;
using namespace mortise::latency;

namespace {

/// A function of that name behind ours; before it is known, and where there is none, the system call.
template <class Result, class... A> struct Behind {
  const char* name;
  KernelCall what;
  long number;
  Result (*next)(A...) = nullptr;

  Result operator()(A... arguments) const noexcept {
    find_next();
    if (self.is_inside) self.kernel_calls |= what;
    if (next) return next(arguments...);
    const long result = os::syscall(number, arguments...);
    if (result >= 0 || result < -4095) return (Result)result;
    errno = static_cast<int>(-result);
    return (Result)-1;
  }
};

constinit Behind<void*, void*, size_t, int, int, int, off_t> mmap_behind{"mmap", kMmap, SYS_mmap};
constinit Behind<void*, void*, size_t, int, int, int, off_t> mmap64_behind{"mmap64", kMmap, SYS_mmap};
constinit Behind<int, void*, size_t> munmap_behind{"munmap", kMunmap, SYS_munmap};
constinit Behind<int, void*, size_t, int> madvise_behind{"madvise", kMadvise, SYS_madvise};
constinit Behind<int, void*, size_t, int> mprotect_behind{"mprotect", kMprotect, SYS_mprotect};
constinit Behind<void*, void*, size_t, size_t, int, void*> mremap_behind{"mremap", kMremap, SYS_mremap};
constinit Behind<int> yield_behind{"sched_yield", kYield, SYS_sched_yield};

}  // namespace

namespace mortise::latency {

MORTISE_COLD void look_for_kernel_calls() noexcept {
  const auto find = [](auto&... all) { ((all.next = reinterpret_cast<decltype(all.next)>(dlsym(RTLD_NEXT, all.name))), ...); };
  find(mmap_behind, mmap64_behind, munmap_behind, madvise_behind, mprotect_behind, mremap_behind, yield_behind);
}

}  // namespace mortise::latency

extern "C" {

MORTISE_EXPORT void* mmap(void* at, size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  return mmap_behind(at, bytes, protection, flags, file, offset);
}
MORTISE_EXPORT void* mmap64(void* at, size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  return mmap64_behind(at, bytes, protection, flags, file, offset);
}
MORTISE_EXPORT int munmap(void* at, size_t bytes) noexcept { return munmap_behind(at, bytes); }
MORTISE_EXPORT int madvise(void* at, size_t bytes, int advice) noexcept { return madvise_behind(at, bytes, advice); }
MORTISE_EXPORT int mprotect(void* at, size_t bytes, int protection) noexcept { return mprotect_behind(at, bytes, protection); }
MORTISE_EXPORT void* mremap(void* at, size_t old_bytes, size_t bytes, int flags, ...) noexcept {
  va_list more;
  va_start(more, flags);
  void* const target = flags & MREMAP_FIXED ? va_arg(more, void*) : nullptr;
  va_end(more);
  return mremap_behind(at, old_bytes, bytes, flags, target);
}
MORTISE_EXPORT int sched_yield() noexcept { return yield_behind(); }
}
