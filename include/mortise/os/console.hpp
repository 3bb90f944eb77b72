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

/// An open file that is written to, and whether it has taken all of it: a full disk takes a part, or nothing.
class Output {
 public:
  explicit Output(int fd) noexcept : fd_(fd) {}

  void write(const char* from, std::size_t bytes) noexcept {
    constexpr long kInterrupted = -4;
    while (bytes) {
      const long n = syscall(SYS_write, static_cast<long>(fd_), from, bytes);
      if (n == kInterrupted) continue;
      if (n <= 0) return fail();
      from += n;
      bytes -= static_cast<std::size_t>(n);
    }
  }
  void fail() noexcept { is_whole_ = false; }
  /// Closes the file, which is when some file systems say that there is no room. True when all has been taken.
  bool close() noexcept {
    constexpr long kInterrupted = -4;
    const long n = syscall(SYS_close, static_cast<long>(fd_));
    return is_whole_ && (n == 0 || n == kInterrupted);
  }

 private:
  int fd_;
  bool is_whole_ = true;
};

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
  /// As a string, which ends within the line.
  const char* c_str() noexcept {
    text_[length_ < kCapacity ? length_ : kCapacity - 1] = '\0';
    return text_;
  }
  std::size_t length() const noexcept { return length_; }

  /// Writes the line and a newline to `out` in one call, if it takes them in one.
  void flush(Output& out) noexcept {
    if (length_ == kCapacity) --length_;
    put('\n');
    out.write(text_, length_);
    length_ = 0;
  }
  /// The same to standard error.
  void flush() noexcept {
    Output standard_error(2);
    flush(standard_error);
  }

 private:
  char text_[kCapacity];
  std::size_t length_ = 0;
};

}  // namespace mortise::os
