// The seam to isolated threads: when the runtime of isolate/ is in the program, threads may live in address spaces of their own,
// and what reaches across threads through the kernel takes its shared form.
//
// The runtime is found by a weak symbol, so nothing is linked and nothing is asked on a fast path: only calls that would enter
// the kernel anyway look at it. What changes: pages come from memory that every address space sees; futexes are keyed by file,
// not by address space; core indices are CPU numbers, since concurrency ids are per address space; running sections of other
// cores are not restarted and no purge thread is started, since both reach one address space only.
#pragma once

#include "mortise/os/syscall.hpp"

/// mmap, munmap, mremap or madvise as the runtime answers them: in the kernel's form, negative numbers are -errno.
extern "C" [[gnu::weak, gnu::visibility("default")]] long mortise_isolate_memory_call(long number, long a, long b, long c, long d,
                                                                                     long e, long f);

namespace mortise::os {

/// Whether threads of this program may live in address spaces of their own.
inline bool may_be_isolated() noexcept { return &mortise_isolate_memory_call != nullptr; }

/// A call that changes what memory is mapped.
inline long memory_call(long number, long a, long b, long c = 0, long d = 0, long e = 0, long f = 0) noexcept {
  return may_be_isolated() ? mortise_isolate_memory_call(number, a, b, c, d, e, f) : syscall(number, a, b, c, d, e, f);
}

}  // namespace mortise::os
