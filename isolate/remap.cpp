// remap.cpp: memory of the region grows in place where what follows is free; what must move is copied, and nothing else.
#include "remap.hpp"

#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <sys/mman.h>
#include <sys/sysinfo.h>

#include "early_moves.hpp"
#include "file_maps.hpp"
#include "memory.hpp"
#include "moved_files.hpp"
#include "protection.hpp"
#include "raw.hpp"
#include "region.hpp"
#include "room.hpp"
#include "share.hpp"

namespace mortise::isolate {
namespace {

constexpr std::size_t kBlock = 4u << 20;

std::uintptr_t address_of(const void* p) noexcept { return reinterpret_cast<std::uintptr_t>(p); }

void* fail_map(int error) noexcept { return errno = error, MAP_FAILED; }

/// Whether what lies there can be told from one mapping: another's that follows must not be moved along. The kernel joins neighbours.
bool is_one_mapping(std::uintptr_t low, std::uintptr_t high) noexcept {
  if (has_mapped_file(low, low + 1)) return is_one_file(low, high);
  if (has_mapped_file(low, high)) return false;
  if (in_region(low)) return are_taken(low, high - low);
  for (std::uintptr_t at = low; at < high; at = shared_range_end(at, high))
    if (!find_shared_range(at)) return false;
  return true;
}

/// mremap of what begins in a file's mapping.
void* remap_file(std::uintptr_t at, std::size_t old_bytes, std::size_t new_bytes, int flags, void* target) noexcept {
  void* const low = reinterpret_cast<void*>(at);
  const bool stays = flags & MREMAP_DONTUNMAP;
  if (stays && old_bytes != new_bytes) return fail_map(EINVAL);
  if (!target && !stays && old_bytes > 0 && new_bytes <= old_bytes) {
    const bool wrong = new_bytes < old_bytes && unmap_memory(reinterpret_cast<void*>(at + new_bytes), old_bytes - new_bytes) != 0;
    return wrong ? MAP_FAILED : low;
  }
  if (!(flags & MREMAP_MAYMOVE)) return fail_map(ENOMEM);
  void* const fresh = move_file(at, old_bytes, new_bytes, target, stays);
  if (fresh != MAP_FAILED && old_bytes > 0 && !stays) unmap_memory(low, old_bytes);
  return fresh;
}

/// mincore does not tell of what has been swapped out.
bool is_swap_in_use() noexcept {
  struct sysinfo machine{};
  return failed(raw_syscall(SYS_sysinfo, as_long(&machine))) || machine.freeswap != machine.totalswap;
}

/// What exists of one block, at most kBlock: to read the rest would bring it in.
void copy_existing(std::byte* to, std::uintptr_t from, std::size_t bytes) noexcept {
  unsigned char exists[kBlock / kPage];
  if (failed(raw_syscall(SYS_mincore, static_cast<long>(from), static_cast<long>(bytes), as_long(exists))))
    std::memset(exists, 1, sizeof exists);
  for (std::size_t at = 0; at < bytes; at += kPage)
    if (exists[at / kPage] & 1) std::memcpy(to + at, reinterpret_cast<const void*>(from + at), kPage);
}

/// Takes the contents away block by block: a large one must not take its memory twice, nor one that is reserved take it for the first time.
void move_contents(std::byte* to, std::uintptr_t from, std::size_t bytes, std::size_t all_bytes) noexcept {
  const bool is_memory = !has_mapped_file(from, from + all_bytes) && (in_region(from) || find_shared_range(from).high >= from + all_bytes);
  if (!is_memory) return void(std::memcpy(to, reinterpret_cast<const void*>(from), bytes));
  const bool is_all_told = !is_swap_in_use();
  for (std::size_t at = 0, part; at < bytes; at += part) {
    part = bytes - at < kBlock ? bytes - at : kBlock;
    if (is_all_told) copy_existing(to + at, from + at, part);
    else std::memcpy(to + at, reinterpret_cast<const void*>(from + at), part);
    punch(from + at, part);
  }
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
  const bool shrinks = old_bytes > 0 && new_bytes <= old_bytes && !target && !(flags & MREMAP_DONTUNMAP);
  if (!shrinks && (is_moved_early_file(at) || (!in_region(at) && !has_mapped_file(at, at + 1)))) make_written_early_file_memory(at, at + old_bytes);
  const bool is_ours = in_region(at) || find_shared_range(at) || has_mapped_file(at, at + 1);
  const bool must_be_one = new_bytes > old_bytes || ((flags & MREMAP_DONTUNMAP) && !target);  // else the kernel takes several
  if (is_ours && must_be_one && !is_one_mapping(at, at + (old_bytes ? old_bytes : kPage))) return fail_map(EFAULT);
  if (!is_ours || is_moved_early_file(at)) {
    const long moved = move_early_file(at, old_bytes, new_bytes, flags, to);
    return failed(moved) ? fail_map(static_cast<int>(-moved)) : reinterpret_cast<void*>(moved);
  }
  if (has_mapped_file(at, at + 1)) return remap_file(at, old_bytes, new_bytes, flags, target);
  if (old_bytes == 0 || ((flags & MREMAP_DONTUNMAP) && old_bytes != new_bytes)) return fail_map(EINVAL);
  const bool moves = target || (flags & MREMAP_DONTUNMAP);
  if (!moves && new_bytes <= old_bytes) {
    const bool wrong = new_bytes < old_bytes && unmap_memory(static_cast<std::byte*>(low) + new_bytes, old_bytes - new_bytes) != 0;
    return wrong ? MAP_FAILED : low;
  }
  const int protection = protection_of(at);
  if (new_bytes > old_bytes && (protection & PROT_WRITE) && is_too_much(new_bytes - old_bytes)) return fail_map(ENOMEM);
  if (!moves && in_region(at) && take_pages_at(at + old_bytes, new_bytes - old_bytes)) {
    protect_fresh(at + old_bytes, new_bytes - old_bytes, protection);
    return low;
  }
  if (!(flags & MREMAP_MAYMOVE)) return fail_map(ENOMEM);
  void* fresh =
      target ? map_memory(target, new_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0)
             : map_private(nullptr, new_bytes, PROT_READ | PROT_WRITE, 0);
  if (fresh == MAP_FAILED) return MAP_FAILED;
  unprotect(at, old_bytes);  // it may be what cannot be read
  move_contents(static_cast<std::byte*>(fresh), at, old_bytes < new_bytes ? old_bytes : new_bytes, old_bytes);
  if (flags & MREMAP_DONTUNMAP) punch(at, old_bytes);
  else unmap_memory(low, old_bytes);
  protect_fresh(address_of(fresh), new_bytes, protection);
  if (flags & MREMAP_DONTUNMAP) protect_fresh(at, old_bytes, protection);
  return fresh;
}

}  // namespace mortise::isolate
