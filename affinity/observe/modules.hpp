// Loaded modules: which file an address belongs to, where its code and its unwind table lie, and what a slot of its global
// offset table is called. Looked up without a lock and without memory, from inside malloc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mortise/os/frame_rule.hpp"

namespace mortise::affinity {

struct Module {
  std::uintptr_t first = 0, last = 0;    ///< its mapping: first address, and the one behind the last
  std::uintptr_t bias = 0;               ///< address in memory minus address in the file
  const std::uint8_t* unwind = nullptr;  ///< .eh_frame_hdr; null when it has none
  const char* path = nullptr;            ///< as the loader knows it; empty for the program itself
  const void* dynamic = nullptr;         ///< the dynamic section

  explicit operator bool() const { return first != 0; }
  bool operator==(const Module&) const = default;
  bool holds(std::uintptr_t a) const { return a - first < last - first; }
};

/// The module that holds `address`; an empty one for code made at run time. Lock-free with glibc 2.35; never allocates.
Module module_of(std::uintptr_t address) noexcept;

using Range = os::CodeRange;

/// The executable part of `m` that holds `address`; empty when there is none. Code in it can be read while `m` stays loaded.
Range code_of(const Module& m, std::uintptr_t address) noexcept;

/// The bytes of `m`'s build id; 0 when it has none or it is longer than `room`.
std::size_t build_id_of(const Module& m, std::uint8_t* out, std::size_t room) noexcept;

/// The name of the function whose address the loader puts into the word at `slot` of `m`'s global offset table; null when no
/// relocation is made there. O(relocations).
const char* name_of_slot(const Module& m, std::uintptr_t slot) noexcept;

}  // namespace mortise::affinity
