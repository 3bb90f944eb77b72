// Text to standard error without libc and without memory: what a report, a warning and the statistics are written with.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mortise/os/syscall.hpp"

namespace mortise::os {

/// Opens a file for writing, made or emptied; a negative number when that cannot be.
inline int create_file(const char* path) noexcept {
  constexpr long kAtCwd = -100, kWriteCreateTruncateCloexec = 01 | 0100 | 01000 | 02000000;
  return static_cast<int>(syscall(SYS_openat, kAtCwd, path, kWriteCreateTruncateCloexec, 0644L));
}

/// A line of bounded length, built piece by piece; longer text is cut, never written past the end.
template <std::size_t kCapacity = 512> class Line {
 public:
  Line& text(const char* s) noexcept {
    while (s && *s) put(*s++);
    return *this;
  }
  Line& number(std::uint64_t n) noexcept {
    char digits[20];
    unsigned count = 0;
    do digits[count++] = static_cast<char>('0' + n % 10); while (n /= 10);
    while (count) put(digits[--count]);
    return *this;
  }
  Line& hex(std::uint64_t n) noexcept {
    text("0x");
    int shift = 60;
    while (shift && !(n >> shift & 15)) shift -= 4;
    for (; shift >= 0; shift -= 4) put("0123456789abcdef"[n >> shift & 15]);
    return *this;
  }
  Line& pointer(const void* p) noexcept { return hex(reinterpret_cast<std::uintptr_t>(p)); }
  Line& put(char c) noexcept {
    if (length_ < kCapacity) text_[length_++] = c;
    return *this;
  }
  const char* data() const noexcept { return text_; }
  std::size_t length() const noexcept { return length_; }

  /// Writes the line and a newline to `fd` in one call.
  void flush(int fd = 2) noexcept {
    if (length_ == kCapacity) --length_;
    put('\n');
    syscall(SYS_write, fd, text_, length_);
    length_ = 0;
  }

 private:
  char text_[kCapacity];
  std::size_t length_ = 0;
};

}  // namespace mortise::os
