// moved_files.cpp: a new mapping of the same file, and what was written of the old one copied.
#include "moved_files.hpp"

#include <cerrno>
#include <sys/mman.h>

#include "descriptors.hpp"
#include "file_copies.hpp"
#include "file_maps.hpp"
#include "lazy_files.hpp"
#include "protection.hpp"
#include "raw.hpp"
#include "share.hpp"

namespace mortise::isolate {
namespace {

constexpr int kFixed = MAP_FIXED | MAP_FIXED_NOREPLACE;

void* fail(long error) noexcept { return errno = static_cast<int>(error < 0 ? -error : error), MAP_FAILED; }

}  // namespace

bool is_one_file(std::uintptr_t low, std::uintptr_t high) noexcept {
  FoundFile r, next;
  if (!find_file(low, r)) return false;
  for (; r.high < high; r = next) {
    if (!find_file(r.high, next) || next.held != r.held || next.offset - r.offset != static_cast<off_t>(next.low - r.low)) return false;
    const bool may_be_memory = (r.flags & MAP_TYPE) == MAP_PRIVATE;  // in part, with rights of its own
    if (next.flags != r.flags || (!may_be_memory && next.protection != r.protection)) return false;
  }
  return true;
}

void* move_file(std::uintptr_t low, std::size_t old_bytes, std::size_t new_bytes, void* target, bool stays) noexcept {
  FoundFile r{};
  if (!find_file(low, r, true)) return fail(EFAULT);
  if (old_bytes == 0 && (r.flags & MAP_TYPE) == MAP_PRIVATE) return let_go_descriptor(r.held), fail(EINVAL);  // what is shared can be had twice
  const int flags = (r.flags & ~kFixed) | (target ? MAP_FIXED : 0), fd = descriptor_of(r.held);
  const off_t offset = r.offset + static_cast<off_t>(low - r.low);
  const int protection = find_shared_range(low) ? protection_of(low) : r.protection | (has_lazy_file(low) ? PROT_WRITE : 0);
  const bool is_written = end_of_shared_in(low, low + old_bytes) != 0;  // and in memory; what nobody has written is still the file's
  void* const fresh = fd < 0       ? fail(fd)
                      : is_written ? copy_file(target, new_bytes, PROT_READ | PROT_WRITE, flags, fd, offset)
                                   : map_file(target, new_bytes, protection, flags, fd, offset);
  if (is_written && fresh != MAP_FAILED) {
    copy_written(fresh, low, old_bytes < new_bytes ? old_bytes : new_bytes);
    protect_fresh(reinterpret_cast<std::uintptr_t>(fresh), page_ceil(new_bytes), protection);
    if (stays) map_file(reinterpret_cast<void*>(low), old_bytes, protection, (r.flags & ~kFixed) | MAP_FIXED, fd, offset);
  }
  let_go_descriptor(r.held);
  return fresh;
}

}  // namespace mortise::isolate
