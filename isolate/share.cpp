// share.cpp: re-mapping data, heap and main stack as shared memory, in place.
//
//   before   | text r-x | relro r-- | .data/.bss rw- private |   [heap] rw- private   |  ...  | [stack] rw- private |
//   after    | text r-x | relro r-- |   shared, same bytes   |  shared, same bytes    |  ...  | shared, same bytes  |
//
// Steps for one mapping: 1. append the pages that hold something to one file in memory; 2. map that file over the old
// place with MAP_FIXED. Addresses do not change, so pointers, COPY relocations and environ stay valid. Pages never
// touched are not copied: a hole of the file reads as zeros, as they did. A page that cannot be read in a mapping that can is a guard
// (MADV_GUARD_INSTALL); its mark goes with the old mapping, and it becomes one without rights.
#include "share.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "lazy_files.hpp"
#include "lock.hpp"
#include "maps.hpp"
#include "protection.hpp"
#include "quiet.hpp"
#include "ranges.hpp"
#include "raw.hpp"

namespace mortise::isolate {

constinit SharedRange shared_ranges[kSharedRangesMax]{};
constinit std::size_t shared_range_count = 0;

static constinit Lock ranges_lock;  // of Quiet: a fault in a handler comes to look

bool note_shared_range(std::uintptr_t low, std::uintptr_t high) noexcept {
  Quiet held(ranges_lock);
  for (std::size_t i = 0; i < shared_range_count; ++i) {
    if (shared_ranges[i].high == low) return shared_ranges[i].high = high, true;
    if (shared_ranges[i].low == high) return shared_ranges[i].low = low, true;
  }
  if (shared_range_count == kSharedRangesMax) return false;
  shared_ranges[shared_range_count++] = {low, high};
  return true;
}

bool divide_shared_range(std::uintptr_t low, std::uintptr_t high) noexcept {
  Quiet held(ranges_lock);
  return divide_ranges(shared_ranges, shared_range_count, kSharedRangesMax, low, high);
}

bool forget_shared_range(std::uintptr_t low, std::uintptr_t high) noexcept {
  Quiet held(ranges_lock);
  return cut_ranges(shared_ranges, shared_range_count, kSharedRangesMax, low, high);
}

Lock& share_lock() noexcept { return ranges_lock; }

SharedRange find_shared_range(std::uintptr_t address) noexcept {
  Quiet held(ranges_lock);
  for (std::size_t i = 0; i < shared_range_count; ++i)
    if (shared_ranges[i].low <= address && address < shared_ranges[i].high) return shared_ranges[i];
  return {};
}

std::uintptr_t shared_range_end(std::uintptr_t low, std::uintptr_t high) noexcept {
  Quiet held(ranges_lock);
  for (std::size_t i = 0; i < shared_range_count; ++i) {
    const SharedRange& r = shared_ranges[i];
    if (r.low <= low && low < r.high && r.high < high) high = r.high;
    if (low < r.low && r.low < high) high = r.low;
  }
  return high;
}

std::uintptr_t end_of_shared_in(std::uintptr_t low, std::uintptr_t high) noexcept {
  Quiet held(ranges_lock);
  std::uintptr_t end = 0;
  for (std::size_t i = 0; i < shared_range_count; ++i)
    if (const SharedRange& r = shared_ranges[i]; r.low < high && low < r.high && r.high > end) end = r.high;
  return end;
}

namespace {

constexpr std::size_t kStackUnlimited = 64u << 20;  // given to a main stack without limit
constexpr std::uint64_t kPresent = 1ull << 63, kSwapped = 1ull << 62;

/// What may not be read and written.
struct Rights {
  std::uintptr_t low, high;
  int protection;
};

struct Copier {
  long file = -1;
  long pagemap = -1;
  std::uint64_t end = 0;               // of the file
  SharedRange done[kSharedRangesMax];  // copied to `shared_ranges` last: that table is itself being moved
  std::size_t done_count = 0;
  Rights rights[kSharedRangesMax];  // and these to the table of protection.cpp
  std::size_t rights_count = 0;
};

bool keep_rights(Copier& c, std::uintptr_t low, std::uintptr_t high, int protection) noexcept {
  Rights* const last = c.rights_count ? &c.rights[c.rights_count - 1] : nullptr;
  if (last && last->high == low && last->protection == protection) return last->high = high, true;
  if (c.rights_count == kSharedRangesMax) return false;
  c.rights[c.rights_count++] = {low, high, protection};
  return true;
}

bool open_files(Copier& c) noexcept {
  c.file = raw_syscall(SYS_memfd_create, as_long("mortise-data"), 1 /* MFD_CLOEXEC */);
  c.pagemap = open_pagemap();
  return !failed(c.file) && !failed(c.pagemap);
}

/// Writes [from, from + bytes) of the mapping to the file at `at`.
bool copy_touched(Copier& c, const Mapping& m, std::uintptr_t from, std::size_t bytes, std::uint64_t at) noexcept {
  for (std::size_t done = 0; done < bytes;) {
    const long put = raw_syscall(SYS_pwrite64, c.file, static_cast<long>(from + done), static_cast<long>(bytes - done),
                                 static_cast<long>(at + done));
    if (put > 0) {
      done += static_cast<std::size_t>(put);
      continue;
    }
    if (m.inode != 0) return true;  // a file mapping may reach past its file's end
    if (put != -EFAULT || !keep_rights(c, from + done, from + done + kPage, PROT_NONE)) return false;
    done += kPage;
  }
  return true;
}

/// Writes [low, high) to the file at `at`, leaving out pages that nobody ever touched. The contents of a file mapping
/// are partly still in its file, so there every page counts.
bool copy_pages(Copier& c, const Mapping& m, std::uint64_t at) noexcept {
  std::uint64_t entries[512];
  for (std::uintptr_t low = m.low; low < m.high;) {
    std::size_t pages = (m.high - low) / kPage;
    if (pages > 512) pages = 512;
    if (m.inode == 0) {
      const long got = raw_syscall(SYS_pread64, c.pagemap, as_long(entries), static_cast<long>(pages * 8),
                                   static_cast<long>(low / kPage * 8));
      if (got != static_cast<long>(pages * 8)) return false;
    }
    for (std::size_t i = 0; i < pages;) {
      const auto holds_data = [&](std::size_t k) { return m.inode != 0 || (entries[k] & (kPresent | kSwapped)); };
      std::size_t n = i;
      while (n < pages && holds_data(n)) ++n;
      if (n == i) {
        ++i;
        continue;
      }
      const std::uintptr_t from = low + i * kPage;
      if (!copy_touched(c, m, from, (n - i) * kPage, at + (from - m.low))) return false;
      i = n;
    }
    low += pages * kPage;
  }
  return true;
}

const char* share_mapping(Copier& c, const Mapping& m, std::uintptr_t map_low) noexcept {
  const std::uint64_t at = c.end + (m.low - map_low);
  c.end += m.high - map_low;
  if (failed(raw_syscall(SYS_ftruncate, c.file, static_cast<long>(c.end))))
    return "cannot grow the shared copy of the data";
  const bool hidden = !m.read;
  if (hidden && failed(raw_syscall(SYS_mprotect, static_cast<long>(m.low), static_cast<long>(m.bytes()), PROT_READ)))
    return "cannot read a protected mapping";
  if (m.protection() != (PROT_READ | PROT_WRITE) && !keep_rights(c, m.low, m.high, m.protection()))
    return "more mappings of different protection than the table holds";
  if (!copy_pages(c, m, at)) return "cannot copy a mapping";  // and keeps those of its guards, which come later
  const long mapped =
      raw_syscall(SYS_mmap, static_cast<long>(map_low), static_cast<long>(m.high - map_low), m.protection(),
                  MAP_SHARED | MAP_FIXED | MAP_NORESERVE, c.file, static_cast<long>(at - (m.low - map_low)));
  if (mapped != static_cast<long>(map_low)) return "cannot re-map a mapping as shared";
  if (c.done_count == kSharedRangesMax) return "more private mappings than the table holds";
  c.done[c.done_count++] = {map_low, m.high};
  return nullptr;
}

/// How far down the main stack may grow: its limit, but never into the mapping below it.
std::uintptr_t main_stack_low(const Mapping& stack, std::uintptr_t below) noexcept {
  rlimit limit{};
  raw_syscall(SYS_prlimit64, 0, RLIMIT_STACK, 0, as_long(&limit));
  const std::size_t bytes =
      limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > (1ul << 30) ? kStackUnlimited : limit.rlim_cur;
  std::uintptr_t low = page_floor(stack.high - bytes);
  if (low < below + (1u << 20)) low = below + (1u << 20);
  return low < stack.low ? low : stack.low;
}

bool must_be_shared(const Mapping& m) noexcept {
  if (m.shared) return false;
  if (m.name[0] == '[')
    return std::strcmp(m.name, "[heap]") == 0 || std::strcmp(m.name, "[stack]") == 0 ||
           std::strncmp(m.name, "[anon:", 6) == 0;
  return m.write || m.inode == 0;
}

const char* share_all(Copier& c) noexcept {
  Maps maps;
  if (!maps.complete()) return "cannot read /proc/self/maps";
  std::uintptr_t below = 0;
  for (Mapping m; maps.next(m); below = m.high) {
    if (!must_be_shared(m) || m.inode != 0)  // threads are made by fork, from which MADV_DONTFORK keeps it
      raw_syscall(SYS_madvise, static_cast<long>(m.low), static_cast<long>(m.bytes()), MADV_DOFORK);
    if (!must_be_shared(m)) continue;
    if (is_lazy_file(m) && adopt_lazy_file(m.low, m.high)) continue;
    const bool stack = std::strcmp(m.name, "[stack]") == 0;
    if (const char* wrong = share_mapping(c, m, stack ? main_stack_low(m, below) : m.low)) return wrong;
  }
  return nullptr;
}

}  // namespace

const char* share_everything() noexcept {
  // The copier's own table is too large for the temporary stack and may not lie in memory that is being moved.
  const long pages = raw_syscall(SYS_mmap, 0, sizeof(Copier), PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (failed(pages)) return "no memory for the table of mappings";
  auto* c = reinterpret_cast<Copier*>(pages);
  c->file = c->pagemap = -1;  // the rest is zero, as fresh pages are
  const char* wrong = open_files(*c) ? share_all(*c) : "cannot open /proc/self/pagemap or a file in memory";
  if (!failed(c->pagemap)) raw_syscall(SYS_close, c->pagemap);
  if (!failed(c->file)) raw_syscall(SYS_close, c->file);
  for (std::size_t i = 0; i < c->done_count; ++i)
    if (!note_shared_range(c->done[i].low, c->done[i].high) && !wrong)
      wrong = "more private mappings than the table holds";
  for (std::size_t i = 0; i < c->rights_count && !wrong; ++i) {
    const Rights& r = c->rights[i];
    raw_syscall(SYS_mprotect, static_cast<long>(r.low), static_cast<long>(r.high - r.low), r.protection);
    if (!note_protection(r.low, r.high, r.protection)) wrong = "more mappings of different protection than the table holds";
  }
  raw_syscall(SYS_munmap, pages, sizeof(Copier));
  return wrong;
}

}  // namespace mortise::isolate
