// memory.cpp: mmap and its relatives once threads live apart.
//
//   anonymous, private         a range of the shared region: no kernel call, and every thread sees it
//   files, anonymous shared    mapped here, recorded, mapped by another thread when it first touches them (file_maps.hpp)
//   munmap, MADV_DONTNEED      pages of the region are punched out of their file: they read as zeros again, everywhere
//   mprotect                   done here, recorded, caught up with by others when they fault (protection.hpp)
//   brk, sbrk                  refused with ENOMEM: the break belongs to one address space; malloc falls back to mmap
#include "memory.hpp"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>

#include "arm.hpp"
#include "callers.hpp"
#include "descriptors.hpp"
#include "early_files.hpp"
#include "file_maps.hpp"
#include "lazy_files.hpp"
#include "lock.hpp"
#include "maps.hpp"
#include "protection.hpp"
#include "raw.hpp"
#include "region.hpp"
#include "remap.hpp"
#include "rendezvous.hpp"
#include "room.hpp"
#include "share.hpp"
#include "system_call.hpp"
#include "thread.hpp"
#include "windows.hpp"
#include "wiped.hpp"

namespace mortise::isolate {
namespace {

void count(std::uint64_t Counts::*what) noexcept {
  if (self) ++(self->counts.*what);
}

std::uintptr_t address_of(const void* p) noexcept { return reinterpret_cast<std::uintptr_t>(p); }

void* fail_map(int error) noexcept { return errno = error, MAP_FAILED; }
int fail(long result) noexcept { return failed(result) ? (errno = static_cast<int>(-result), -1) : 0; }

bool is_shared(std::uintptr_t low) noexcept { return in_region(low) || bool{find_shared_range(low)}; }

/// Makes [low, low + bytes) of shared memory read as zeros, in all address spaces.
long drop_contents(std::uintptr_t low, std::size_t bytes) noexcept {
  return raw_syscall(SYS_madvise, static_cast<long>(low), static_cast<long>(bytes), MADV_REMOVE);
}

struct Fresh {
  std::uintptr_t low;
  std::size_t bytes;
  long file;
  const Thread* by;
  bool is_missing;  // somewhere
};
void map_fresh(void* argument) noexcept {
  Fresh& f = *static_cast<Fresh*>(argument);
  const long mapped = raw_syscall(SYS_mmap, static_cast<long>(f.low), static_cast<long>(f.bytes), PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_FIXED | MAP_NORESERVE, f.file, 0);
  if (failed(mapped)) return shared(f.is_missing).store(true);
  if (f.bytes > kArenaBytes / 2) raw_syscall(SYS_madvise, static_cast<long>(f.low), static_cast<long>(f.bytes), MADV_DONTDUMP);
  if (f.by == self && !in_region(f.low)) note_shared_range(f.low, f.low + f.bytes);
}
struct Unmapping {
  std::uintptr_t low;
  std::size_t bytes;
  long result;  // the caller's, who is the last
};
void unmap_old(void* argument) noexcept {
  auto& u = *static_cast<Unmapping*>(argument);
  const long result = raw_syscall(SYS_munmap, static_cast<long>(u.low), static_cast<long>(u.bytes));
  shared(u.result).store(result);
}

/// A file lies there, or shared memory from before the first create: punching would reach what is not the program's memory alone.
bool is_foreign(std::uintptr_t low, std::size_t bytes) noexcept {
  if (has_mapped_file(low, low + bytes)) return true;
  if (in_region(low) || find_shared_range(low)) return false;
  return is_mapped_here(low, bytes);
}
void* replace_everywhere(std::uintptr_t low, std::size_t bytes, int protection) noexcept {
  if (!divide_lazy_file(low, low + bytes) || !make_room_to_cut(low, low + bytes)) return fail_map(ENOMEM);
  Fresh f{low, bytes, open_memory_file("mortise-fixed", bytes), self, false};
  if (failed(f.file)) return fail_map(ENOMEM);
  forget_files(low, bytes);
  everywhere(&map_fresh, &f);
  raw_syscall(SYS_close, f.file);
  if (f.is_missing) {
    Unmapping u{low, bytes, 0};
    everywhere(&unmap_old, &u);
    forget_shared_range(low, low + bytes);
    return fail_map(ENOMEM);
  }
  note_protection(low, low + bytes, PROT_READ | PROT_WRITE);
  protect_fresh(low, bytes, protection);
  return reinterpret_cast<void*>(low);
}

/// Of the region.
void* protect_taken(std::uintptr_t low, std::size_t bytes, int protection) noexcept {
  if (!failed(protect_fresh(low, bytes, protection))) return reinterpret_cast<void*>(low);
  give_pages(low, bytes);
  return fail_map(ENOMEM);
}

void* map_anonymous(std::size_t bytes, int protection, int flags) noexcept {
  const bool is_written = (protection & PROT_WRITE) && !(flags & MAP_NORESERVE);
  const std::uintptr_t low = take_pages(bytes, is_written ? FirstTouch::soon : FirstTouch::unknown);
  if (!low) {  // more than there is room for in the region: a file of its own
    const std::uintptr_t place = bytes < kArenaBytes / 2 ? 0 : take_file_place(bytes);
    void* const mapped = place ? replace_everywhere(place, page_ceil(bytes), protection) : fail_map(ENOMEM);
    if (place && mapped == MAP_FAILED) give_file_place(place, bytes);
    return mapped;
  }
  return protect_taken(low, page_ceil(bytes), protection);
}

/// [at, the answer) is one mapping of a file, or one piece of memory.
std::uintptr_t next_piece(std::uintptr_t at, std::uintptr_t end) noexcept {
  if (const std::uintptr_t edge = in_region(at) ? kRegionHigh : kRegionLow; at < edge && edge < end) end = edge;
  end = piece_end(at, end);
  return in_region(at) && !has_files_in_region() ? end : shared_range_end(at, end);
}

/// munmap of one.
long unmap_piece(std::uintptr_t at, std::size_t bytes) noexcept {
  if (!divide_wiped(at, bytes)) return -ENOMEM;
  // Around a file in the region or a window lies memory: what is given back with it later must be there.
  const bool is_early_in_window = in_window(at) && !find_shared_range(at);  // what was there when it was adopted
  const bool is_amid_memory = is_early_in_window || ((in_region(at) || in_window(at)) && has_mapped_file(at, at + bytes));
  if (is_amid_memory && replace_everywhere(at, bytes, PROT_READ | PROT_WRITE) == MAP_FAILED && !has_mapped_file(at, at + 1)) return 0;
  // The place of a file elsewhere is not used again: others still have it mapped.
  if (const long unmapped = unmap_file(at, bytes); unmapped != kNoFile) return unmapped;
  forget_wiped(at, bytes);
  if (in_region(at)) {
    unprotect(at, bytes);
    give_pages(at, bytes);
    return 0;
  }
  if (in_window(at)) {
    drop_contents(at, bytes);
    free_in_window(at, bytes);
    return 0;
  }
  forget_lazy_file(at, at + bytes);
  // What was there before the first create others have as well, and where the kernel puts something here later they must have room.
  // Of memory the contents go, and the caller keeps the place.
  if (find_shared_range(at)) {
    drop_contents(at, bytes);
    forget_shared_range(at, at + bytes);
    note_protection(at, at + bytes, PROT_READ | PROT_WRITE);
    if (in_file_window(at)) {  // more than the region had room for: no thread keeps it, and the place is used again
      Unmapping u{at, bytes, 0};
      if (is_thread()) everywhere(&unmap_old, &u);
      else unmap_old(&u);
      if (!failed(u.result)) give_file_place(at, bytes);
      return u.result;
    }
    if (!failed(raw_syscall(SYS_mprotect, static_cast<long>(at), static_cast<long>(bytes), PROT_NONE))) return 0;
  }
  Unmapping u{at, bytes, 0};
  if (is_thread() && live_threads.load() > 1 && is_foreign(at, bytes)) everywhere(&unmap_old, &u);
  else unmap_old(&u);
  return u.result;
}

constexpr int kGuardInstall = 102, kGuardRemove = 103;  // MADV_GUARD_INSTALL and its like, since Linux 6.13

/// madvise of the same. What is dropped of a file's mapping is still in the file.
long advise_piece(std::uintptr_t at, std::size_t bytes, int advice) noexcept {
  if (is_shared(at) && !has_mapped_file(at, at + bytes)) {
    if (advice == MADV_DONTNEED || advice == MADV_FREE) return drop_contents(at, bytes);
    if (advice == kGuardInstall) return install_guards(at, bytes);
    if (advice == kGuardRemove) return remove_guards(at, bytes);
    if (advice == MADV_DONTFORK || advice == MADV_DOFORK) return 0;
    if (advice == MADV_KEEPONFORK) return divide_wiped(at, page_ceil(bytes)) ? (forget_wiped(at, page_ceil(bytes)), 0) : -ENOMEM;
    if (advice == MADV_WIPEONFORK) return note_wiped(at, page_ceil(bytes)) ? 0 : -ENOMEM;
  }
  if (advice == MADV_DONTFORK && is_thread()) advice = MADV_DOFORK;  // threads are made by fork: asks what the kernel has against it
  return raw_syscall(SYS_madvise, static_cast<long>(at), static_cast<long>(bytes), advice);
}

/// mprotect of the same.
long protect_piece(std::uintptr_t at, std::size_t bytes, int protection) noexcept {
  // Blocks of files that were written are memory.
  const bool may_be_file = (!in_region(at) || has_mapped_file(at, at + bytes)) && !find_shared_range(at);
  const long changed = may_be_file ? protect_file(at, bytes, protection) : kNoFile;
  if (changed != kNoFile) return changed;
  return is_shared(at) ? protect(at, bytes, protection) : protect_early_file(at, bytes, protection);
}

/// MAP_FIXED over memory that is already shared: allocators commit and decommit so.
void* map_anonymous_over(std::uintptr_t low, std::size_t bytes, int protection) noexcept {
  if (in_region(low)) claim_pages(low, bytes);
  punch(low, page_ceil(bytes));
  if (protection != PROT_NONE) unprotect(low, bytes);  // what lay there may have had fewer rights
  protect_fresh(low, page_ceil(bytes), protection);
  return reinterpret_cast<void*>(low);
}

/// What windows.hpp answers.
void* map_chosen(long mapped, std::size_t bytes, int protection) noexcept {
  if (failed(mapped)) return fail_map(static_cast<int>(-mapped));
  const auto low = static_cast<std::uintptr_t>(mapped);
  unprotect(low, bytes);
  protect_fresh(low, bytes, protection);
  return reinterpret_cast<void*>(low);
}

/// MAP_FIXED over whatever lies there. Memory and what is none may be neighbours: punching all of it would reach a file.
void* replace(std::uintptr_t low, std::size_t bytes, int protection) noexcept {
  const std::uintptr_t high = low + bytes;
  void* last = fail_map(ENOMEM);
  for (std::uintptr_t at = low, next; at < high; at = next) {
    next = next_piece(at, high);
    const bool is_among_files = !is_shared(at) && lies_among_files(at);  // others may map there next: no window
    if (is_among_files || is_foreign(at, next - at)) last = replace_everywhere(at, next - at, protection);
    else if (is_shared(at) && !in_window(at)) last = map_anonymous_over(at, next - at, protection);
    else last = map_chosen(map_in_window(at, next - at, false), next - at, protection);
    if (last == MAP_FAILED) return last;
  }
  return reinterpret_cast<void*>(low);
}

/// Whether the kernel has huge pages for this: their size, or -errno. Whatever it gives goes back, for other threads would not see it.
long ask_for_huge_pages(std::size_t bytes, int protection, int flags) noexcept {
  constexpr std::size_t kSizes[] = {2u << 20, 1u << 30};
  const int size_flags = flags & (MAP_HUGE_MASK << MAP_HUGE_SHIFT);
  const long low = raw_syscall(SYS_mmap, 0, static_cast<long>(bytes), protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | size_flags, -1, 0);
  if (failed(low)) return low;
  for (const std::size_t size : kSizes)  // only whole pages can be unmapped
    if (!failed(raw_syscall(SYS_munmap, low, static_cast<long>((bytes + size - 1) / size * size)))) return static_cast<long>(size);
  return -ENOMEM;
}

/// MAP_HUGETLB: ordinary pages where huge ones could lie.
void* map_huge(void* where, std::size_t bytes, int protection, int flags) noexcept {
  const long answer = ask_for_huge_pages(bytes, protection, flags);
  if (failed(answer)) return fail_map(static_cast<int>(-answer));
  const auto size = static_cast<std::size_t>(answer);
  bytes = (bytes + size - 1) / size * size;
  if (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE))
    return address_of(where) % size ? fail_map(EINVAL) : map_private(where, bytes, protection, flags);
  const std::uintptr_t taken = take_pages(bytes + size);
  if (!taken) return fail_map(ENOMEM);
  const std::uintptr_t low = (taken + size - 1) / size * size;
  if (low > taken) give_pages(taken, low - taken);
  give_pages(low + bytes, taken + size - low);
  protect_fresh(low, bytes, protection);
  return reinterpret_cast<void*>(low);
}

}  // namespace

void* map_memory(void* where, std::size_t bytes, int protection, int flags, int fd, off_t offset) noexcept {
  return map_memory_for(is_allocator(__builtin_return_address(0)), where, bytes, protection, flags, fd, offset);
}

void* map_memory_for(bool allocator, void* where, std::size_t bytes, int protection, int flags, int fd, off_t offset) noexcept {
  count(&Counts::mmap);
  const int type = flags & MAP_TYPE;
  if (bytes == 0 || offset % static_cast<off_t>(kPage) || type == 0 || type > MAP_SHARED_VALIDATE) return fail_map(EINVAL);
  if (!(flags & MAP_ANONYMOUS) && fd < 0) return fail_map(EBADF);
  const bool anonymous_private = (flags & MAP_ANONYMOUS) && type == MAP_PRIVATE;
  if (anonymous_private && protection == PROT_NONE && allocator)
    protection = PROT_READ | PROT_WRITE, flags |= MAP_NORESERVE;  // it is not touched before it is opened
  if (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) {
    if (!has_addresses(address_of(where), bytes)) return fail_map(ENOMEM);
    if (address_of(where) % kPage) return fail_map(EINVAL);
  }
  if ((flags & MAP_ANONYMOUS) && !(flags & MAP_NORESERVE) && (!anonymous_private || (protection & PROT_WRITE)) && is_too_much(bytes))
    return fail_map(ENOMEM);
  if (anonymous_private && (flags & MAP_HUGETLB)) return map_huge(where, bytes, protection, flags);
  if ((flags & MAP_ANONYMOUS) && (flags & MAP_HUGETLB))
    if (const long size = ask_for_huge_pages(bytes, protection, flags); failed(size)) return fail_map(static_cast<int>(-size));
  return anonymous_private ? map_private(where, bytes, protection, flags) : map_file(where, bytes, protection, flags, fd, offset);
}

void* map_private(void* where, std::size_t bytes, int protection, int flags) noexcept {
  const std::uintptr_t at = address_of(where);
  bytes = page_ceil(bytes);
  const bool fixed = flags & (MAP_FIXED | MAP_FIXED_NOREPLACE);
  if (!fixed && !(flags & MAP_32BIT)) return map_anonymous(bytes, protection, flags);
  if (in_region(at) && bytes > kRegionHigh - at) return fail_map(ENOMEM);
  const bool replaces = fixed && !(flags & MAP_FIXED_NOREPLACE);
  if (fixed && lies_among_files(at)) {  // which others may have left there, or map there next: no window of shared memory
    if (!replaces && (is_shared(at) || is_foreign(at, bytes))) return fail_map(EEXIST);
    if (!is_shared(at)) return replace_everywhere(at, bytes, protection);
  }
  if (fixed && !replaces && in_region(at)) return take_pages_at(at, bytes) ? protect_taken(at, bytes, protection) : fail_map(EEXIST);
  if (replaces) return replace(at, bytes, protection);
  return map_chosen(fixed ? map_in_window(at, bytes, true) : map_low(bytes), bytes, protection);
}

int unmap_memory(void* low, std::size_t bytes) noexcept {
  count(&Counts::munmap);
  if (!has_addresses(address_of(low), bytes) || address_of(low) % kPage) return errno = EINVAL, -1;
  const std::uintptr_t end = address_of(low) + page_ceil(bytes);
  long result = 0;
  for (std::uintptr_t at = address_of(low), next; at < end && !failed(result); at = next) {
    next = next_piece(at, end);
    result = unmap_piece(at, next - at);
  }
  return fail(result);
}

int protect_memory(void* low, std::size_t bytes, int protection) noexcept {
  count(&Counts::mprotect);
  if (address_of(low) % kPage) return errno = EINVAL, -1;
  const std::uintptr_t end = address_of(low) + page_ceil(bytes);
  long result = bytes == 0 || has_addresses(address_of(low), bytes) ? 0 : -ENOMEM;
  for (std::uintptr_t at = address_of(low), next; at < end && !failed(result); at = next) {
    next = next_piece(at, end);
    result = protect_piece(at, next - at, protection);
  }
  return fail(result);
}

int allocate_key(unsigned flags, unsigned rights) noexcept { return static_cast<int>(system_call(SYS_pkey_alloc, flags, rights, 0, 0, 0, 0)); }

int advise_memory(void* low, std::size_t bytes, int advice) noexcept {
  count(&Counts::madvise);
  const std::uintptr_t end = address_of(low) + page_ceil(bytes);
  long result = end >= address_of(low) ? 0 : -EINVAL;
  for (std::uintptr_t at = address_of(low), next; at < end && !failed(result); at = next) {
    next = next_piece(at, end);
    result = advise_piece(at, next - at, advice);
  }
  return fail(result);
}

int set_break(void*) noexcept { return errno = ENOMEM, -1; }

void* move_break(std::intptr_t by) noexcept {
  if (by == 0) return reinterpret_cast<void*>(raw_syscall(SYS_brk, 0));
  errno = ENOMEM;
  return reinterpret_cast<void*>(-1);
}

}  // namespace mortise::isolate

long mortise_isolate_memory_call(long number, long a, long b, long c, long d, long e, long f) {
  return mortise::isolate::memory_call(true, number, a, b, c, d, e, f);
}

long mortise::isolate::memory_call(bool by_allocator, long number, long a, long b, long c, long d, long e, long f) noexcept {
  if (!armed()) return raw_syscall(number, a, b, c, d, e, f);
  const auto low = reinterpret_cast<void*>(a);
  const auto bytes = static_cast<std::size_t>(b);
  const int kept = errno;  // the caller is in the middle of a malloc that must not change it
  long result = 0;
  switch (number) {
    case SYS_mmap:
      result = as_long(map_memory_for(by_allocator, low, bytes, static_cast<int>(c), static_cast<int>(d), static_cast<int>(e), f));
      break;
    case SYS_munmap:
      result = unmap_memory(low, bytes);
      break;
    case SYS_mprotect:
      result = protect_memory(low, bytes, static_cast<int>(c));
      break;
    case SYS_madvise:
      result = advise_memory(low, bytes, static_cast<int>(c));
      break;
    case SYS_mremap:
      result = as_long(
          remap_memory(low, bytes, static_cast<std::size_t>(c), static_cast<int>(d), reinterpret_cast<void*>(e)));
      break;
    default:
      return raw_syscall(number, a, b, c, d, e, f);
  }
  if (result == -1) result = -errno;
  errno = kept;
  return result;
}
