// windows.cpp: gigabytes adopted whole, with one bit a page that says which are in use.
//
// What was mapped in a gigabyte before it was adopted stays as it is and counts as used; the gaps become one file in
// memory, mapped everywhere by a rendezvous.
#include "windows.hpp"

#include <cerrno>
#include <sys/mman.h>

#include "descriptors.hpp"
#include "lock.hpp"
#include "maps.hpp"
#include "quiet.hpp"
#include "raw.hpp"
#include "rendezvous.hpp"
#include "share.hpp"

namespace mortise::isolate {
namespace {

constexpr std::size_t kWindow = 1ull << 30;
constexpr std::size_t kPages = kWindow / kPage;
constexpr std::size_t kWindowsMax = 512;

struct Window {
  std::uintptr_t low;
  std::uint64_t used[kPages / 64];

  bool is_used(std::size_t page) const noexcept { return used[page / 64] >> (page % 64) & 1; }
  void mark(std::size_t page, bool use) noexcept {
    const std::uint64_t bit = 1ull << (page % 64);
    used[page / 64] = use ? used[page / 64] | bit : used[page / 64] & ~bit;
  }
};

constinit Lock lock;  // of Answering: adopting is done in a rendezvous, whose task does not take it
constinit Window windows[kWindowsMax]{};
constinit std::size_t count = 0;

Window* find(std::uintptr_t address) noexcept {
  for (std::size_t i = 0; i < count; ++i)
    if (address - windows[i].low < kWindow) return &windows[i];
  return nullptr;
}

struct Adoption {
  std::uintptr_t low;
  long file;
};

/// In every address space: the file under whatever is not mapped there yet. Mappings that exist are left alone.
void map_gaps(void* argument) {
  const Adoption a = *static_cast<const Adoption*>(argument);
  const auto map = [&](std::uintptr_t from, std::uintptr_t to) {
    if (from >= to) return;
    const long low = static_cast<long>(from), bytes = static_cast<long>(to - from);
    raw_syscall(SYS_mmap, low, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_NORESERVE, a.file,
                static_cast<long>(from - a.low));
    raw_syscall(SYS_madvise, low, bytes, MADV_DONTDUMP);  // a dump would bring in all of it
  };
  Maps maps;
  std::uintptr_t at = a.low;
  for (Mapping m; maps.next(m) && m.low < a.low + kWindow;) {
    if (m.high <= at) continue;
    map(at, m.low);
    at = m.high;
  }
  map(at, a.low + kWindow);
}

Window* adopt(std::uintptr_t low) noexcept {
  if (count == kWindowsMax) return nullptr;
  Adoption a{low, open_memory_file("mortise-window", kWindow)};
  if (failed(a.file)) return nullptr;
  Window& w = windows[count];
  w.low = low;
  {
    Maps maps;
    std::uintptr_t gap = low;
    for (Mapping m; maps.next(m) && m.low < low + kWindow;) {
      if (m.high <= low) continue;
      for (std::uintptr_t p = m.low < low ? low : m.low; p < m.high && p < low + kWindow; p += kPage)
        w.mark((p - low) / kPage, true);
      if (gap < m.low) note_shared_range(gap, m.low);
      gap = m.high;
    }
    if (gap < low + kWindow) note_shared_range(gap, low + kWindow);
  }
  everywhere(&map_gaps, &a);
  raw_syscall(SYS_close, a.file);
  ++count;
  return &w;
}

/// The first page of so many that are free in a row; kPages: there are none.
std::size_t find_free(const Window& w, std::size_t pages) noexcept {
  for (std::size_t page = 0, run = 0; page < kPages; ++page) {
    run = w.is_used(page) ? 0 : run + 1;
    if (run == pages) return page + 1 - pages;
  }
  return kPages;
}

}  // namespace

long map_low(std::size_t bytes) noexcept {
  const std::size_t pages = page_ceil(bytes) / kPage;
  Answering held(lock);
  Window* w = find(kWindow);
  if (!w) w = adopt(kWindow);
  const std::size_t first = w ? find_free(*w, pages) : kPages;
  if (first == kPages) return -ENOMEM;
  for (std::size_t page = first; page < first + pages; ++page) w->mark(page, true);
  return static_cast<long>(kWindow + first * kPage);
}

long map_in_window(std::uintptr_t low, std::size_t bytes, bool keep) noexcept {
  bytes = page_ceil(bytes);
  Answering held(lock);
  for (std::uintptr_t p = low / kWindow * kWindow; p < low + bytes; p += kWindow)
    if (!find(p) && !adopt(p)) return -ENOMEM;
  if (keep)
    for (std::uintptr_t p = low; p < low + bytes; p += kPage)
      if (Window* w = find(p); w->is_used((p - w->low) / kPage)) return -EEXIST;
  for (std::uintptr_t p = low; p < low + bytes; p += kPage) {
    Window* w = find(p);
    w->mark((p - w->low) / kPage, true);
  }
  if (!keep) raw_syscall(SYS_madvise, static_cast<long>(low), static_cast<long>(bytes), MADV_REMOVE);
  return static_cast<long>(low);
}

bool in_window(std::uintptr_t address) noexcept {
  Answering held(lock);
  return find(address) != nullptr;
}

void free_in_window(std::uintptr_t low, std::size_t bytes) noexcept {
  Answering held(lock);
  for (std::uintptr_t p = low; p < low + bytes; p += kPage)
    if (Window* w = find(p)) w->mark((p - w->low) / kPage, false);
}

Lock& window_lock() noexcept { return lock; }

}  // namespace mortise::isolate
