// Where the interpreter may go: code of loaded modules, except libc, the loader and the allocator itself, whose calls are
// stepped over. Code that no module owns (made at run time) is not entered.
#pragma once

#include <cstdint>

namespace mortise::affinity {

enum class Outside : std::uint8_t {
  unknown,
  fills,                   // memset
  copies,                  // memcpy, memmove
  returns_first_argument,  // strcpy ...
  never_returns,           // abort, exit ...
};

class Scope {
 public:
  /// Learns where libc, the loader and, if not null, the module that `own` lies in are. Lock-free; calls no malloc.
  void begin(const void* own) noexcept;
  bool may_enter(std::uintptr_t pc) noexcept;
  bool is_loader(std::uintptr_t pc) const noexcept { return within(loader_, pc); }
  /// What is known of a function that is stepped over.
  static Outside outside(std::uintptr_t pc) noexcept;

 private:
  struct Range {
    std::uintptr_t first, end;
  };
  static bool within(const Range& r, std::uintptr_t pc) noexcept { return pc - r.first < r.end - r.first; }
  static Range module_of(std::uintptr_t pc) noexcept;

  Range libc_{}, loader_{}, own_{}, last_{};  // last: the module entered last
};

}  // namespace mortise::affinity
