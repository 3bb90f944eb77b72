// remap.cpp: memory of the region grows in place where what follows is free; what must move is copied.
#include "remap.hpp"

#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <sys/mman.h>

#include "file_maps.hpp"
#include "memory.hpp"
#include "protection.hpp"
#include "raw.hpp"
#include "region.hpp"
#include "room.hpp"
#include "share.hpp"

namespace mortise::isolate {
namespace {

std::uintptr_t address_of(const void* p) noexcept { return reinterpret_cast<std::uintptr_t>(p); }

void* fail_map(int error) noexcept { return errno = error, MAP_FAILED; }

/// mremap of what begins in a file's mapping.
void* remap_file(std::uintptr_t at, std::size_t old_bytes, std::size_t new_bytes, int flags, void* target) noexcept {
  void* const low = reinterpret_cast<void*>(at);
  if (!target && old_bytes > 0 && new_bytes <= old_bytes) {
    if (new_bytes < old_bytes) unmap_memory(reinterpret_cast<void*>(at + new_bytes), old_bytes - new_bytes);
    return low;
  }
  if (!(flags & MREMAP_MAYMOVE)) return fail_map(ENOMEM);
  void* const fresh = move_file(at, old_bytes, new_bytes, target);
  if (fresh != MAP_FAILED && old_bytes > 0 && !(flags & MREMAP_DONTUNMAP)) unmap_memory(low, old_bytes);
  return fresh;
}

}  // namespace

void* remap_memory(void* low, std::size_t old_bytes, std::size_t new_bytes, int flags, ...) noexcept {
  constexpr int kFlags = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
  const std::uintptr_t at = address_of(low);
  old_bytes = page_ceil(old_bytes);
  new_bytes = page_ceil(new_bytes);
  if (at % kPage || new_bytes == 0 || (flags & ~kFlags) || (flags & kFlags && !(flags & MREMAP_MAYMOVE))) return fail_map(EINVAL);
  void* target = nullptr;
  if (flags & MREMAP_FIXED) {
    va_list rest;
    va_start(rest, flags);
    target = va_arg(rest, void*);
    va_end(rest);
  }
  const std::uintptr_t to = address_of(target);
  if (target && (to % kPage || !has_addresses(to, new_bytes) || (at < to + new_bytes && to < at + old_bytes))) return fail_map(EINVAL);
  if (has_mapped_file(at, at + 1)) return remap_file(at, old_bytes, new_bytes, flags, target);
  if (!in_region(at) && !find_shared_range(at)) {
    const long moved = raw_syscall(SYS_mremap, static_cast<long>(at), static_cast<long>(old_bytes),
                                   static_cast<long>(new_bytes), flags, as_long(target));
    return failed(moved) ? fail_map(static_cast<int>(-moved)) : reinterpret_cast<void*>(moved);
  }
  if ((flags & MREMAP_DONTUNMAP) && old_bytes != new_bytes) return fail_map(EINVAL);
  const bool moves = target || (flags & MREMAP_DONTUNMAP);
  if (!moves && new_bytes <= old_bytes) {
    if (new_bytes < old_bytes) unmap_memory(static_cast<std::byte*>(low) + new_bytes, old_bytes - new_bytes);
    return low;
  }
  const int protection = protection_of(at);
  if (new_bytes > old_bytes && (protection & PROT_WRITE) && is_too_much(new_bytes - old_bytes)) return fail_map(ENOMEM);
  if (!moves && in_region(at) && take_pages_at(at + old_bytes, new_bytes - old_bytes)) {
    protect_fresh(at + old_bytes, new_bytes - old_bytes, protection);
    return low;
  }
  if (!(flags & MREMAP_MAYMOVE)) return fail_map(ENOMEM);
  void* fresh =
      target ? map_memory(target, new_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)
             : map_private(nullptr, new_bytes, PROT_READ | PROT_WRITE, 0);
  if (fresh == MAP_FAILED) return MAP_FAILED;
  unprotect(at, old_bytes);  // it may be what cannot be read
  std::memcpy(fresh, low, old_bytes < new_bytes ? old_bytes : new_bytes);
  if (flags & MREMAP_DONTUNMAP) punch(at, old_bytes);
  else unmap_memory(low, old_bytes);
  protect_fresh(address_of(fresh), new_bytes, protection);
  if (flags & MREMAP_DONTUNMAP) protect_fresh(at, old_bytes, protection);
  return fresh;
}

}  // namespace mortise::isolate
