// file_copies.cpp: small private mappings of files, and those that are replaced or moved.
#include "file_copies.hpp"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>

#include "memory.hpp"
#include "protection.hpp"
#include "raw.hpp"
#include "share.hpp"

namespace mortise::isolate {
namespace {

/// What mmap has against it: a file that cannot be read or mapped, a place in it that there is not. 0 or -errno.
long ask_kernel(std::size_t bytes, int protection, int fd, off_t offset) noexcept {
  const long low = raw_syscall(SYS_mmap, 0, static_cast<long>(bytes), protection, MAP_PRIVATE | MAP_NORESERVE, fd, offset);
  return failed(low) ? low : raw_syscall(SYS_munmap, low, static_cast<long>(bytes));
}

}  // namespace

void* copy_file(void* where, std::size_t bytes, int protection, int flags, int fd, off_t offset) noexcept {
  bytes = page_ceil(bytes);
  // Before what lies there is replaced.
  if (const long wrong = ask_kernel(bytes, protection, fd, offset); failed(wrong)) return errno = static_cast<int>(-wrong), MAP_FAILED;
  void* const low = map_private(where, bytes, protection, flags & (MAP_FIXED | MAP_FIXED_NOREPLACE));
  if (low == MAP_FAILED) return low;
  for (std::size_t done = 0; done < bytes;) {
    const long got = raw_syscall(SYS_pread64, fd, as_long(low) + static_cast<long>(done), static_cast<long>(bytes - done),
                                 offset + static_cast<off_t>(done));
    if (failed(got)) {
      unmap_memory(low, bytes);
      return errno = static_cast<int>(-got), MAP_FAILED;
    }
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return low;
}

void copy_written(void* to, std::uintptr_t from, std::size_t bytes) noexcept {
  const std::uintptr_t end = from + bytes;
  for (std::uintptr_t at = from, next; at < end; at = next) {
    next = shared_range_end(at, end);
    if (!find_shared_range(at)) continue;
    unprotect(at, next - at);  // it may be what cannot be read
    std::memcpy(static_cast<std::byte*>(to) + (at - from), reinterpret_cast<const void*>(at), next - at);
  }
}

}  // namespace mortise::isolate
