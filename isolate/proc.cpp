// proc.cpp: reading them without libc.
#include "proc.hpp"

#include <cstring>
#include <fcntl.h>

#include "descriptors.hpp"
#include "raw.hpp"

namespace mortise::isolate {

void format_path(char* out, const char* before, int number, const char* after) noexcept {
  char digits[12];
  int n = 0;
  do digits[n++] = static_cast<char>('0' + number % 10);
  while ((number /= 10) > 0);
  std::size_t at = std::strlen(before);
  std::memcpy(out, before, at);
  while (n > 0) out[at++] = digits[--n];
  std::memcpy(out + at, after, std::strlen(after) + 1);
}

bool read_of_process(int pid, const char* name, char* text, std::size_t room) noexcept {
  char path[64], after[40] = "/";
  std::strcpy(after + 1, name);
  format_path(path, "/proc/", pid, after);
  const long fd = open_beyond_limit(SYS_open, as_long(path), O_RDONLY | O_CLOEXEC);
  if (failed(fd)) return false;
  const long got = raw_syscall(SYS_read, fd, as_long(text), static_cast<long>(room - 1));
  raw_syscall(SYS_close, fd);
  if (got <= 0) return false;
  text[got] = '\0';
  return true;
}

bool read_of_descriptor(int fd, char* text, std::size_t room) noexcept {
  char name[32];
  format_path(name, "fdinfo/", fd, "");
  return read_of_process(raw_getpid(), name, text, room);
}

std::uint64_t read_number(const char*& at, unsigned base) noexcept {
  std::uint64_t value = 0;
  for (;; ++at) {
    const char c = *at;
    unsigned digit;
    if (c >= '0' && c <= '9') digit = static_cast<unsigned>(c - '0');
    else if (c >= 'a' && c <= 'f') digit = static_cast<unsigned>(c - 'a' + 10);
    else return value;
    if (digit >= base) return value;
    value = value * base + digit;
  }
}

}  // namespace mortise::isolate
