// file_copies.cpp: small private mappings of files, and those that are replaced or moved.
#include "file_copies.hpp"

#include <cerrno>
#include <sys/mman.h>

#include "memory.hpp"
#include "raw.hpp"

namespace mortise::isolate {

void* copy_file(void* where, std::size_t bytes, int protection, int flags, int fd, off_t offset) noexcept {
  bytes = page_ceil(bytes);
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

}  // namespace mortise::isolate
