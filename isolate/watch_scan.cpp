// watch_scan.cpp: the write-set of one address space, by asynchronous write protection (Linux 6.7).
//
// userfaultfd marks pages write-protected without anybody handling faults: the kernel clears the mark when the page is
// written, by the program or by a system call. PAGEMAP_SCAN reports the unmarked pages and marks them again, in one
// pass.
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>

#include "maps.hpp"
#include "raw.hpp"
#include "region.hpp"
#include "share.hpp"
#include "thread.hpp"
#include "watch.hpp"

namespace mortise::isolate {
namespace {

// From linux/userfaultfd.h and linux/fs.h of 6.7; older headers lack them.
constexpr std::uint64_t kAsync = 1 << 15, kUnpopulated = 1 << 13, kShmem = 1 << 12, kWriteFaults = 1;
constexpr int kUserModeOnly = 1;
struct PageRegion {
  std::uint64_t start, end, categories;
};
struct ScanArgument {
  std::uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
  std::uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
constexpr unsigned long kPagemapScan = _IOWR('f', 16, ScanArgument);
constexpr std::uint64_t kWriteProtectMatching = 1, kIsWritten = 2;

struct Tracker {
  int pid = 0;  // of the address space that owns the descriptors; a clone inherits only their numbers
  int fault = -1, pagemap = -1;
  std::size_t ranges = 0;
  int arenas = 0;
};
constinit Tracker trackers[kThreadsMax]{};

int far_descriptor(long fd) noexcept {
  if (failed(fd)) return -1;
  const long far = raw_syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 500);
  if (failed(far)) return static_cast<int>(fd);
  raw_syscall(SYS_close, fd);
  return static_cast<int>(far);
}

int open_tracking() noexcept {
  const int fd = far_descriptor(raw_syscall(SYS_userfaultfd, O_CLOEXEC | kUserModeOnly));
  if (fd < 0) return -1;
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = kAsync | kUnpopulated | kShmem | kWriteFaults;
  if (failed(raw_syscall(SYS_ioctl, fd, UFFDIO_API, as_long(&api)))) {
    raw_syscall(SYS_close, fd);
    return -1;
  }
  return fd;
}

void track(int fd, std::uintptr_t low, std::uintptr_t high) noexcept {
  uffdio_register range{};
  range.range = {low, high - low};
  range.mode = UFFDIO_REGISTER_MODE_WP;
  raw_syscall(SYS_ioctl, fd, UFFDIO_REGISTER, as_long(&range));
}

/// The tracker of this address space, with every shared range known so far under it.
Tracker* own_tracker() noexcept {
  Tracker& t = trackers[self->index];
  if (t.pid != self->pid.load()) {
    t = Tracker{};
    t.fault = open_tracking();
    t.pagemap = far_descriptor(open_pagemap());
    if (t.fault < 0 || t.pagemap < 0) return nullptr;
    t.pid = self->pid.load();
    for (int i = 0; i < kArenaCount; ++i) track(t.fault, arena_low(i), arena_low(i) + kArenaBytes);
  }
  for (; t.ranges < shared_range_count; ++t.ranges)
    track(t.fault, shared_ranges[t.ranges].low, shared_ranges[t.ranges].high);
  return &t;
}

template <class Note>
bool scan(const Tracker& t, std::uintptr_t low, std::uintptr_t high, Note note) noexcept {
  PageRegion found[64];
  while (low < high) {
    ScanArgument a{};
    a.size = sizeof a;
    a.flags = kWriteProtectMatching;
    a.start = low;
    a.end = high;
    a.vec = reinterpret_cast<std::uint64_t>(found);
    a.vec_len = sizeof found / sizeof found[0];
    a.category_mask = a.return_mask = kIsWritten;
    const long count = raw_syscall(SYS_ioctl, t.pagemap, static_cast<long>(kPagemapScan), as_long(&a));
    if (failed(count)) return false;
    for (long i = 0; i < count; ++i) note(found[i].start, found[i].end);
    if (a.walk_end <= low) break;
    low = a.walk_end;
  }
  return true;
}

template <class Note>
bool scan_everything(const Tracker& t, Note note) noexcept {
  bool worked = true;
  for (std::size_t i = 0; i < t.ranges; ++i) worked &= scan(t, shared_ranges[i].low, shared_ranges[i].high, note);
  for (int i = 0; i < kArenaCount; ++i) worked &= scan(t, arena_low(i), arena_touched_end(i), note);
  return worked;
}

}  // namespace

bool can_track_writes() noexcept {
  const int fd = open_tracking();
  if (fd >= 0) raw_syscall(SYS_close, fd);
  return fd >= 0;
}

void end_tracking() noexcept {
  Tracker& t = trackers[self->index];
  if (t.pid != self->pid.load()) return;
  raw_syscall(SYS_close, t.fault);
  raw_syscall(SYS_close, t.pagemap);
  t = Tracker{};
}

bool arm_tracking() noexcept {
  const Tracker* t = own_tracker();
  return t && scan_everything(*t, [](std::uintptr_t, std::uintptr_t) {});
}

bool collect_written(void (*note)(void*, std::uintptr_t, std::uintptr_t), void* argument) noexcept {
  const Tracker* t = own_tracker();
  return t && scan_everything(*t, [&](std::uintptr_t low, std::uintptr_t high) { note(argument, low, high); });
}

}  // namespace mortise::isolate
