// region.cpp: page ranges by first fit in arenas.
//
// Free ranges of an arena stand in one array sorted by address, neighbours joined. A program's large mappings number in
// the hundreds, so a linear walk is short; should the array overflow, the range is simply lost until the program ends.
#include "region.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>

#include "lock.hpp"
#include "message.hpp"
#include "mortise/cache/map_cache.hpp"
#include "mortise/os/pages.hpp"
#include "quiet.hpp"
#include "raw.hpp"
#include "thread.hpp"

namespace mortise::isolate {
namespace {

struct Extent {
  std::uint32_t first;  // page number in the arena
  std::uint32_t pages;
  std::uint32_t end() const noexcept { return first + pages; }
};

constexpr std::uint32_t kArenaPages = kArenaBytes / kPage;
constexpr std::size_t kExtentsMax = 8192;

struct Arena {
  Lock lock;
  std::uint32_t fresh = 0;  // pages from here on were never given out
  std::uint32_t count = 0;  // of free extents, all below `fresh`
  Extent free[kExtentsMax];
  MapCache<> kept;  // given back whole, not punched yet

  void remove(std::uint32_t i) noexcept { std::memmove(&free[i], &free[i + 1], (--count - i) * sizeof(Extent)); }
  void insert(std::uint32_t i, Extent e) noexcept {
    std::memmove(&free[i + 1], &free[i], (count++ - i) * sizeof(Extent));
    free[i] = e;
  }
  /// The first free extent that ends above `page`.
  std::uint32_t search(std::uint32_t page) const noexcept {
    std::uint32_t low = 0, high = count;
    while (low < high) {
      const std::uint32_t middle = (low + high) / 2;
      if (free[middle].end() <= page) low = middle + 1;
      else high = middle;
    }
    return low;
  }
  bool take(std::uint32_t pages, std::uint32_t& first) noexcept;
  bool take_at(std::uint32_t first, std::uint32_t pages) noexcept;
  void give(Extent e) noexcept;
  void give_used(Extent e) noexcept;
  void claim(Extent e) noexcept;
};

constinit Arena arenas[kArenaCount]{};

bool Arena::take(std::uint32_t pages, std::uint32_t& first) noexcept {
  for (std::uint32_t i = 0; i < count; ++i) {
    if (free[i].pages < pages) continue;
    first = free[i].first;
    free[i].first += pages;
    free[i].pages -= pages;
    if (free[i].pages == 0) remove(i);
    return true;
  }
  if (kArenaPages - fresh < pages) return false;
  first = fresh;
  fresh += pages;
  return true;
}

bool Arena::take_at(std::uint32_t first, std::uint32_t pages) noexcept {
  if (first == fresh && kArenaPages - fresh >= pages) return fresh += pages, true;
  const std::uint32_t i = search(first);
  if (i == count || free[i].first > first || free[i].end() < first + pages) return false;
  const Extent after{first + pages, free[i].end() - (first + pages)};
  free[i].pages = first - free[i].first;
  const bool whole_front = free[i].pages == 0;
  if (whole_front) remove(i);
  if (after.pages) insert(whole_front ? i : i + 1, after);
  return true;
}

void Arena::give(Extent e) noexcept {
  const std::uint32_t i = search(e.first);
  const bool joins_left = i > 0 && free[i - 1].end() == e.first;
  const bool joins_right = i < count && free[i].first == e.end();
  if (joins_left && joins_right) {
    free[i - 1].pages += e.pages + free[i].pages;
    remove(i);
  } else if (joins_left) {
    free[i - 1].pages += e.pages;
  } else if (joins_right) {
    free[i].first = e.first;
    free[i].pages += e.pages;
  } else if (count < kExtentsMax) {
    insert(i, e);
  }
}

/// Gives what of `e` is not free already: a program may unmap what it has unmapped before.
void Arena::give_used(Extent e) noexcept {
  const std::uint32_t end = e.end() < fresh ? e.end() : fresh;
  for (std::uint32_t at = e.first; at < end;) {
    const std::uint32_t i = search(at);
    const bool is_free = i < count && free[i].first <= at;
    const std::uint32_t next = is_free ? free[i].end() : i < count && free[i].first < end ? free[i].first : end;
    if (!is_free) give({at, next - at});
    at = next;
  }
}

/// Makes all of `e` taken.
void Arena::claim(Extent e) noexcept {
  if (e.end() > fresh) {
    const std::uint32_t before = fresh;
    fresh = e.end();
    if (e.first > before) give({before, e.first - before});
  }
  for (std::uint32_t i = search(e.first); i < count && free[i].first < e.end();) {
    const Extent had = free[i];
    remove(i);
    if (had.first < e.first) insert(i++, {had.first, e.first - had.first});
    if (had.end() > e.end() && count < kExtentsMax) insert(i, {e.end(), had.end() - e.end()});
  }
}

/// Whether the system backs shared memory with 2 MB pages where asked: then each further thread's first touch of
/// memory that another one has written costs a fiftieth. Debian's default is "never", under which asking has no effect.
bool huge_pages_permitted() noexcept {
  char text[128] = "";
  const long fd =
      raw_syscall(SYS_open, as_long("/sys/kernel/mm/transparent_hugepage/shmem_enabled"), O_RDONLY | O_CLOEXEC);
  if (failed(fd)) return false;
  const long got = raw_syscall(SYS_read, fd, as_long(text), sizeof text - 1);
  raw_syscall(SYS_close, fd);
  if (got <= 0) return false;
  return std::strstr(text, "[advise]") || std::strstr(text, "[always]") || std::strstr(text, "[within_size]") ||
         std::strstr(text, "[force]");
}

/// MORTISE_THREADS_CACHE=0: every munmap gives its pages back at once.
bool cache_wanted() noexcept {
  static const bool wanted = setting_number("MORTISE_THREADS_CACHE", 1, 0, 1) == 1;
  return wanted;
}

Arena& arena_of(std::uintptr_t address) noexcept { return arenas[(address - kRegionLow) / kArenaBytes]; }
std::uint32_t page_in_arena(std::uintptr_t address) noexcept {
  return static_cast<std::uint32_t>((address - kRegionLow) % kArenaBytes / kPage);
}

/// Neighbours in two arenas may have become one range for the program.
template <class Act>
void in_each_arena(std::uintptr_t low, std::size_t bytes, Act act) noexcept {
  for (const std::uintptr_t end = low + page_ceil(bytes); low < end && in_region(low);) {
    const std::size_t rest = kArenaBytes - (low - kRegionLow) % kArenaBytes, part = end - low < rest ? end - low : rest;
    act(low, part);
    low += part;
  }
}

/// Brings the first pages of a range in at once: one call instead of a fault for each, and a fault in a file's memory looks
/// at its neighbours each time besides. No more than the kernel itself brings in around a fault in a file.
void bring_in(std::uintptr_t low, std::size_t bytes) noexcept {
  constexpr std::size_t kAheadBytes = 64u << 10;
  os::prefault(reinterpret_cast<std::byte*>(low), bytes < kAheadBytes ? bytes : kAheadBytes);
}

/// Drops the contents and makes the range free. The arena's lock is held.
void give_up(Arena& arena, std::uintptr_t low, std::size_t bytes) noexcept {
  punch(low, bytes);
  arena.give({page_in_arena(low), static_cast<std::uint32_t>(bytes / kPage)});
}

MapCache<>::Mapping take_kept(Arena& arena, std::size_t bytes) noexcept {
  Brief held(arena.lock);
  return arena.kept.take(bytes);
}

bool take_free(Arena& arena, std::uint32_t pages, std::uint32_t& first) noexcept {
  Brief held(arena.lock);
  return arena.take(pages, first);
}

void give_to_arena(std::uintptr_t low, std::size_t bytes) noexcept {
  Arena& arena = arena_of(low);
  const Extent e{page_in_arena(low), static_cast<std::uint32_t>(bytes / kPage)};
  MapCache<>::Mapping out{low, bytes};
  {
    Brief held(arena.lock);
    while (const auto kept = arena.kept.take_touching(low, bytes)) give_up(arena, kept.low, kept.bytes);
    const std::uint32_t i = arena.search(e.first);
    const bool is_partly_free = e.end() > arena.fresh || (i < arena.count && arena.free[i].first < e.end());
    if (is_partly_free) {
      punch(low, bytes);
      return arena.give_used(e);
    }
    if (cache_wanted()) out = arena.kept.put(out);
  }
  if (!out) return;
  // The kernel's work is done without the lock; nobody can be given the range before it is free.
  punch(out.low, out.bytes);
  Brief held(arena.lock);
  arena.give({page_in_arena(out.low), static_cast<std::uint32_t>(out.bytes / kPage)});
}

void claim_in_arena(std::uintptr_t low, std::size_t bytes) noexcept {
  Arena& arena = arena_of(low);
  Brief held(arena.lock);
  while (const auto kept = arena.kept.take_touching(low, bytes)) give_up(arena, kept.low, kept.bytes);
  arena.claim({page_in_arena(low), static_cast<std::uint32_t>(bytes / kPage)});
}

/// After mlockall(MCL_FUTURE) whatever is mapped is brought in at once, and told by that.
bool locks_what_is_mapped() noexcept {
  const long page = raw_syscall(SYS_mmap, 0, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (failed(page)) return false;
  unsigned char present = 0;
  raw_syscall(SYS_mincore, page, kPage, as_long(&present));
  raw_syscall(SYS_munmap, page, kPage);
  return present & 1;
}

}  // namespace

int lock_all_memory(int flags) noexcept {
  const long result = raw_syscall(SYS_mlockall, flags | MCL_ONFAULT);
  return failed(result) ? (errno = static_cast<int>(-result), -1) : 0;
}

void punch(std::uintptr_t low, std::size_t bytes) noexcept {
  const long at = static_cast<long>(low), length = static_cast<long>(bytes);
  if (raw_syscall(SYS_madvise, at, length, MADV_REMOVE) != -EINVAL) return;
  raw_syscall(SYS_munlock, at, length);
  raw_syscall(SYS_madvise, at, length, MADV_REMOVE);
}

const char* open_region() noexcept {
  if (locks_what_is_mapped()) lock_all_memory(MCL_FUTURE);
  const bool huge = huge_pages_permitted();
  explain("2 MB pages for shared memory: %s", huge ? "asked for" : "the system does not permit them (shmem_enabled)");
  for (int i = 0; i < kArenaCount; ++i) {
    const long file = raw_syscall(SYS_memfd_create, as_long("mortise-region"), 1 /* MFD_CLOEXEC */);
    if (failed(file)) return "memfd_create failed";
    long mapped = raw_syscall(SYS_ftruncate, file, kArenaBytes);
    if (!failed(mapped))
      mapped = raw_syscall(SYS_mmap, static_cast<long>(arena_low(i)), kArenaBytes, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_NORESERVE, file, 0);
    raw_syscall(SYS_close, file);
    if (mapped == -ENOMEM) return "address space is limited (ulimit -v) and the shared region reserves 1 TB of it";
    if (mapped != static_cast<long>(arena_low(i))) return "the address range of the shared region is taken";
    if (huge) raw_syscall(SYS_madvise, mapped, kArenaBytes, MADV_HUGEPAGE);
    leave_out_of_dumps(i);
  }
  return nullptr;
}

void leave_out_of_dumps(int arena) noexcept {
  raw_syscall(SYS_madvise, static_cast<long>(arena_low(arena)), kArenaBytes, MADV_DONTDUMP);
}

void let_into_dump() noexcept {
  for (int i = 0; i < kArenaCount; ++i)
    raw_syscall(SYS_madvise, static_cast<long>(arena_low(i)), static_cast<long>(arena_touched_end(i) - arena_low(i)),
                MADV_DODUMP);
}

std::uintptr_t take_pages(std::size_t bytes, FirstTouch touch) noexcept {
  if (bytes == 0 || bytes > kArenaBytes) return 0;
  const auto pages = static_cast<std::uint32_t>(page_ceil(bytes) / kPage);
  const int home = self ? self->index % kArenaCount : 0;
  {
    const MapCache<>::Mapping kept = take_kept(arenas[home], page_ceil(bytes));
    if (kept) {
      std::memset(reinterpret_cast<void*>(kept.low), 0, kept.bytes);
      return kept.low;
    }
  }
  for (int i = 0; i < kArenaCount; ++i) {
    const int index = (home + i) % kArenaCount;
    std::uint32_t first = 0;
    if (!take_free(arenas[index], pages, first)) continue;
    const std::uintptr_t low = arena_low(index) + first * kPage;
    if (touch == FirstTouch::soon) bring_in(low, page_ceil(bytes));
    return low;
  }
  return 0;
}

bool take_pages_at(std::uintptr_t low, std::size_t bytes) noexcept {
  if (!in_region(low) || page_in_arena(low) + page_ceil(bytes) / kPage > kArenaPages) return false;
  Arena& arena = arena_of(low);
  Brief held(arena.lock);
  // What is kept may lie there: it becomes ordinary free memory first.
  for (auto kept = arena.kept.take_oldest(); kept; kept = arena.kept.take_oldest())
    give_up(arena, kept.low, kept.bytes);
  return arena.take_at(page_in_arena(low), static_cast<std::uint32_t>(page_ceil(bytes) / kPage));
}

bool are_taken(std::uintptr_t low, std::size_t bytes) noexcept {
  bool all = in_region(low) && page_ceil(bytes) <= kRegionHigh - low;
  in_each_arena(low, bytes, [&all](std::uintptr_t part, std::size_t part_bytes) {
    Arena& arena = arena_of(part);
    const std::uint32_t end = page_in_arena(part) + static_cast<std::uint32_t>(part_bytes / kPage);
    Brief held(arena.lock);
    while (const auto kept = arena.kept.take_touching(part, part_bytes)) give_up(arena, kept.low, kept.bytes);
    const std::uint32_t i = arena.search(page_in_arena(part));
    all = all && end <= arena.fresh && (i == arena.count || arena.free[i].first >= end);
  });
  return all;
}

void give_pages(std::uintptr_t low, std::size_t bytes) noexcept { in_each_arena(low, bytes, &give_to_arena); }
void claim_pages(std::uintptr_t low, std::size_t bytes) noexcept { in_each_arena(low, bytes, &claim_in_arena); }

std::uintptr_t arena_low(int index) noexcept { return kRegionLow + static_cast<std::uintptr_t>(index) * kArenaBytes; }
std::uintptr_t arena_touched_end(int index) noexcept { return arena_low(index) + arenas[index].fresh * kPage; }

Lock& arena_lock(int index) noexcept { return arenas[index].lock; }

}  // namespace mortise::isolate
