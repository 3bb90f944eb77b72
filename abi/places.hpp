// Where in the program's files some addresses lie, read from /proc/self/maps without libc: for the report of a fault.
#pragma once

#include <fcntl.h>
#include <string.h>

#include <cstddef>
#include <cstdint>

#include "mortise/os/syscall.hpp"

namespace mortise::abi {

/// An address as the debugger's tools want it: the file and the distance from where its first byte is mapped.
struct Place {
  std::uintptr_t address = 0;
  std::uintptr_t offset = 0;
  char file[160] = {};  ///< empty: in no file
};

/// What lies at an address that is none of the heap's.
enum class Ground { nothing, file, stack, other };  // `other` where nobody can tell

/// Looks up `n` places at once. One pass over the file; never allocates, async-signal-safe. O(mappings).
class Mappings {
 public:
  void find(Place* places, unsigned n) noexcept {
    each_line([&] { consider(places, n); });
  }

  /// Where a pointer lies: in a file's mapping or the zeroed data behind it, on the stack of the main thread or of the one that asks,
  /// in other memory, or in none.
  Ground ground_of(const void* p) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(p);
    // What a thread has on its stack now lies between these two, when one mapping holds both.
    const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    const auto top = reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer());
    Ground found = Ground::nothing;
    std::uintptr_t file_end = 0;
    const bool is_told = each_line([&] {
      const char* at = line_;
      const std::uintptr_t begin = number(at);
      ++at;
      const std::uintptr_t end = number(at);
      const bool is_file = strchr(at, '/') || (begin == file_end && !strchr(at, '['));
      if (is_file) file_end = end;
      if (address < begin || address >= end) return;
      const bool is_stack = strstr(at, "[stack]") || (begin <= here && here <= address && address < top && top <= end);
      found = is_file ? Ground::file : is_stack ? Ground::stack : Ground::other;
    });
    return is_told ? found : Ground::other;
  }

 private:
  /// False when the system does not let the file be read to its end.
  template <class Each> bool each_line(Each&& each) noexcept {
    const long fd = os::syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    long got;
    while ((got = os::syscall(SYS_read, fd, buffer_, sizeof buffer_)) > 0) {
      for (long i = 0; i < got; ++i) {
        if (buffer_[i] != '\n') {
          if (length_ < sizeof line_ - 1) line_[length_++] = buffer_[i];
          continue;
        }
        line_[length_] = 0;
        length_ = 0;
        each();
      }
    }
    os::syscall(SYS_close, fd);
    return got == 0;
  }
  static std::uintptr_t number(const char*& at) noexcept {
    std::uintptr_t value = 0;
    for (;; ++at) {
      const char c = *at;
      if (c >= '0' && c <= '9') value = value * 16 + static_cast<unsigned>(c - '0');
      else if (c >= 'a' && c <= 'f') value = value * 16 + static_cast<unsigned>(c - 'a' + 10);
      else return value;
    }
  }
  /// `begin-end permissions offset device inode   file`. A file's mappings lie together, the first at its offset 0.
  void consider(Place* places, unsigned n) noexcept {
    const char* at = line_;
    const std::uintptr_t begin = number(at);
    if (*at++ != '-') return;
    const std::uintptr_t end = number(at);
    const char* const file = strchr(at, '/');
    if (!file) return;
    if (strncmp(file, file_, sizeof file_ - 1) != 0) {
      strncpy(file_, file, sizeof file_ - 1);
      base_ = begin;
    }
    for (unsigned i = 0; i < n; ++i) {
      Place& place = places[i];
      if (place.address < begin || place.address >= end) continue;
      memcpy(place.file, file_, sizeof place.file);
      place.offset = place.address - base_;
    }
  }

  char buffer_[1024];
  char line_[512];
  std::size_t length_ = 0;
  char file_[sizeof(Place::file)] = {};
  std::uintptr_t base_ = 0;
};

}  // namespace mortise::abi
