// wiped.cpp: the table; and /proc/self/smaps, where "VmFlags: ... wf" tells of memory that the kernel was asked to empty.
#include "wiped.hpp"

#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>

#include "quiet.hpp"
#include "ranges.hpp"
#include "raw.hpp"
#include "region.hpp"

namespace mortise::isolate {
namespace {

struct Range {
  std::uintptr_t low, high;
};

constexpr std::size_t kRangesMax = 256, kTextBytes = 64u << 20;

constinit Lock lock;
constinit Range ranges[kRangesMax]{};
constinit std::size_t count = 0;
constinit bool expected = false;

/// The whole file, or null.
char* read_smaps(char* text) noexcept {
  const long fd = raw_syscall(SYS_open, as_long("/proc/self/smaps"), O_RDONLY | O_CLOEXEC);
  if (failed(fd)) return nullptr;
  std::size_t length = 0;
  long got;
  while ((got = raw_syscall(SYS_read, fd, as_long(text + length), static_cast<long>(kTextBytes - 1 - length))) > 0)
    length += static_cast<std::size_t>(got);
  raw_syscall(SYS_close, fd);
  return got == 0 ? text : nullptr;
}

/// A line of numbers begins a mapping, and words follow that say something of it.
void note_lines(char* text) noexcept {
  Range at{};
  for (char *line = text, *next; line && *line; line = next) {
    if ((next = std::strchr(line, '\n'))) *next++ = '\0';
    if (*line >= 'A' && *line <= 'Z') {
      if (std::strncmp(line, "VmFlags:", 8) == 0 && std::strstr(line, " wf")) note_wiped(at.low, at.high - at.low);
      continue;
    }
    char* end;
    at.low = std::strtoul(line, &end, 16);
    at.high = std::strtoul(end + 1, nullptr, 16);
  }
}

}  // namespace

void expect_wiped() noexcept { expected = true; }

void find_wiped() noexcept {
  if (!expected) return;
  const long pages = raw_syscall(SYS_mmap, 0, kTextBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (failed(pages)) return;
  if (char* const text = read_smaps(reinterpret_cast<char*>(pages))) note_lines(text);
  raw_syscall(SYS_munmap, pages, kTextBytes);
}

bool note_wiped(std::uintptr_t low, std::size_t bytes) noexcept {
  Quiet held(lock);
  for (std::size_t i = 0; i < count; ++i)
    if (ranges[i].low <= low && low + bytes <= ranges[i].high) return true;
  if (count == kRangesMax) return false;
  cut_ranges(ranges, count, kRangesMax, low, low + bytes);
  ranges[count] = {low, low + bytes};
  shared(count).fetch_add(1);
  return true;
}

bool divide_wiped(std::uintptr_t low, std::size_t bytes) noexcept {
  if (shared(count).load() == 0) return true;
  Quiet held(lock);
  return divide_ranges(ranges, count, kRangesMax, low, low + bytes);
}

void forget_wiped(std::uintptr_t low, std::size_t bytes) noexcept {
  if (shared(count).load() == 0) return;
  Quiet held(lock);
  cut_ranges(ranges, count, kRangesMax, low, low + bytes);
}

void wipe() noexcept {
  for (std::size_t i = 0; i < count; ++i)
    punch(ranges[i].low, ranges[i].high - ranges[i].low);
}

Lock& wiped_lock() noexcept { return lock; }

}  // namespace mortise::isolate
