// Where the interpreter may go: code of loaded modules, except libc, the loader and the allocator itself, whose calls are
// stepped over. Code that no module owns (made at run time) is not entered.
#pragma once

#include <cstdint>

namespace mortise::affinity {

class Scope {
 public:
  /// Learns where libc, the loader and, if not null, the module that `own` lies in are. Lock-free; calls no malloc.
  void begin(const void* own) noexcept;
  bool may_enter(std::uintptr_t pc) noexcept;
  bool is_loader(std::uintptr_t pc) const noexcept { return within(loader_, pc); }
  /// Whether the function at `pc` is one of libc's that returns its first argument (memcpy, strcpy ...).
  static bool returns_first_argument(std::uintptr_t pc) noexcept;
  /// Whether it is one that never returns (abort, exit ...).
  static bool never_returns(std::uintptr_t pc) noexcept;

 private:
  struct Range {
    std::uintptr_t first, end;
  };
  static bool within(const Range& r, std::uintptr_t pc) noexcept { return pc - r.first < r.end - r.first; }
  static Range module_of(std::uintptr_t pc) noexcept;

  Range libc_{}, loader_{}, own_{}, last_{};  // last: the module entered last
};

}  // namespace mortise::affinity
