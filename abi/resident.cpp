// How much of a range of addresses is in memory: what the kernel says in /proc/self/smaps.
#include <fcntl.h>

#include "abi/snapshot.hpp"
#include "mortise/os/control_group.hpp"

namespace mortise::abi {
namespace {

/// A file read piece by piece, line by line, without memory of our own.
class Lines {
 public:
  explicit Lines(const char* path) noexcept : fd_(os::syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0L)) {}
  ~Lines() {
    if (fd_ >= 0) os::syscall(SYS_close, fd_);
  }
  bool is_open() const noexcept { return fd_ >= 0; }

  /// The next line, cut to what fits, or null at the end.
  const char* next() noexcept {
    unsigned length = 0;
    for (int c; (c = get()) >= 0 && c != '\n';)
      if (length + 1 < sizeof line_) line_[length++] = static_cast<char>(c);
    line_[length] = 0;
    return at_end_ && length == 0 ? nullptr : line_;
  }

 private:
  int get() noexcept {
    if (at_ == filled_) {
      const long n = os::syscall(SYS_read, fd_, piece_, sizeof piece_);
      at_ = 0;
      filled_ = n > 0 ? static_cast<unsigned>(n) : 0;
      if (n <= 0) {
        at_end_ = true;
        return -1;
      }
    }
    return static_cast<unsigned char>(piece_[at_++]);
  }

  long fd_;
  unsigned at_ = 0, filled_ = 0;
  bool at_end_ = false;
  char piece_[2048];
  char line_[128];
};

const char* read_hex(const char* s, std::uintptr_t& value) noexcept {
  for (value = 0;; ++s) {
    const int digit = *s >= '0' && *s <= '9' ? *s - '0' : *s >= 'a' && *s <= 'f' ? *s - 'a' + 10 : -1;
    if (digit < 0) return s;
    value = value * 16 + static_cast<std::uintptr_t>(digit);
  }
}

}  // namespace

std::size_t resident_bytes(const std::byte* from, std::size_t bytes) noexcept {
  Lines lines("/proc/self/smaps");
  if (!lines.is_open()) return Snapshot::kUnknown;
  const std::uintptr_t low = address_of(from);
  std::size_t sum = 0;
  bool is_ours = false;
  while (const char* line = lines.next()) {
    std::uintptr_t start;
    const char* rest = read_hex(line, start);
    if (rest > line && *rest == '-') {
      is_ours = start >= low && start - low < bytes;
    } else if (is_ours && line[0] == 'R' && line[1] == 's' && line[2] == 's' && line[3] == ':') {
      std::uint64_t kilobytes = 0;
      if (os::detail::read_number(line + 4, kilobytes)) sum += kilobytes * 1024;
    }
  }
  return sum;
}

}  // namespace mortise::abi
