// maps.cpp: parser of /proc/self/maps.
#include "maps.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "proc.hpp"
#include "raw.hpp"

namespace mortise::isolate {
namespace {

constexpr std::size_t kTextBytes = 16u << 20;  // 65 530 mappings (the kernel's usual limit) of the longest usual line

}  // namespace

long open_pagemap() noexcept {
  const auto open = [] { return raw_syscall(SYS_open, as_long("/proc/self/pagemap"), O_RDONLY | O_CLOEXEC); };
  const long fd = open();
  if (fd != -EACCES) return fd;
  const long before = raw_syscall(SYS_prctl, PR_GET_DUMPABLE);
  raw_syscall(SYS_prctl, PR_SET_DUMPABLE, 1);
  const long again = open();
  if (before != 1) raw_syscall(SYS_prctl, PR_SET_DUMPABLE, 0);
  return again;
}

bool is_page_here(std::uintptr_t address) noexcept {
  unsigned char present;  // mincore fails where nothing is mapped
  return raw_syscall(SYS_mincore, static_cast<long>(page_floor(address)), kPage, as_long(&present)) == 0;
}

bool is_mapped_here(std::uintptr_t low, std::size_t bytes) noexcept {
  constexpr long kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;  // refused where anything is
  const long nothing = raw_syscall(SYS_mmap, static_cast<long>(low), static_cast<long>(bytes), PROT_NONE, kFlags, -1, 0);
  if (failed(nothing)) return true;
  raw_syscall(SYS_munmap, nothing, static_cast<long>(bytes));
  return static_cast<std::uintptr_t>(nothing) != low;
}

int Mapping::protection() const noexcept {
  return (read ? PROT_READ : 0) | (write ? PROT_WRITE : 0) | (execute ? PROT_EXEC : 0);
}

Maps::Maps() noexcept {
  const long pages =
      raw_syscall(SYS_mmap, 0, kTextBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (failed(pages)) return;
  text_ = at_ = reinterpret_cast<char*>(pages);
  const long fd = raw_syscall(SYS_open, as_long("/proc/self/maps"), O_RDONLY | O_CLOEXEC);
  if (failed(fd)) return;
  std::size_t length = 0;
  for (;;) {
    const long n = raw_syscall(SYS_read, fd, as_long(text_ + length), static_cast<long>(kTextBytes - 1 - length));
    if (n <= 0) {
      complete_ = n == 0;
      break;
    }
    length += static_cast<std::size_t>(n);
  }
  text_[length] = '\0';
  raw_syscall(SYS_close, fd);
}

Maps::~Maps() {
  if (text_) raw_syscall(SYS_munmap, as_long(text_), kTextBytes);
}

bool Maps::next(Mapping& out) noexcept {
  if (at_ && *at_) {
    const char* p = at_;
    out.low = read_number(p, 16);
    ++p;  // '-'
    out.high = read_number(p, 16);
    ++p;  // ' '
    out.read = p[0] == 'r';
    out.write = p[1] == 'w';
    out.execute = p[2] == 'x';
    out.shared = p[3] == 's';
    p += 5;
    out.offset = read_number(p, 16);
    ++p;
    while (*p && *p != ' ') ++p;  // device
    ++p;
    out.inode = read_number(p, 10);
    while (*p == ' ') ++p;
    out.name = p;
    while (*p && *p != '\n') ++p;
    char* const line_end = at_ + (p - at_);
    at_ = *line_end ? line_end + 1 : line_end;
    *line_end = '\0';
    if (!out.shared && std::strcmp(out.name, "/dev/zero") == 0) out.inode = 0;  // memory
    return true;
  }
  return false;
}

}  // namespace mortise::isolate
