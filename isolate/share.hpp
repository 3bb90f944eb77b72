// share.hpp: making the memory that a program already has visible to all its future address spaces.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mortise::isolate {

class Lock;

/// A range that all address spaces share through a file in memory. Fork must copy these, and only these.
struct SharedRange {
  std::uintptr_t low, high;  // equal: none
  explicit operator bool() const noexcept { return low < high; }
};

inline constexpr std::size_t kSharedRangesMax = 16384;
extern SharedRange shared_ranges[kSharedRangesMax];
extern std::size_t shared_range_count;

/// Remembers a range for fork; neighbours are joined. False when the table is full.
bool note_shared_range(std::uintptr_t low, std::uintptr_t high) noexcept;

/// Whether there is room for what forget_shared_range() there may leave.
bool divide_shared_range(std::uintptr_t low, std::uintptr_t high) noexcept;

/// Forgets what lies in [low, high): it is unmapped. False: there was nothing.
bool forget_shared_range(std::uintptr_t low, std::uintptr_t high) noexcept;

Lock& share_lock() noexcept;  // for tables.hpp

/// The shared range that holds `address`, if one does.
SharedRange find_shared_range(std::uintptr_t address) noexcept;

/// [low, the answer) is all of one shared range, or of none.
std::uintptr_t shared_range_end(std::uintptr_t low, std::uintptr_t high) noexcept;

/// The end of the highest range that has a part in [low, high); 0: none has.
std::uintptr_t end_of_shared_in(std::uintptr_t low, std::uintptr_t high) noexcept;

/// Replaces every private mapping that is or may become writable (data and bss of the program and all libraries, the
/// heap, anonymous memory, the main stack) by a shared one with the same contents at the same address. Single-threaded
/// only; must run on a stack that is itself a shared mapping. Returns null, or what went wrong.
const char* share_everything() noexcept;

}  // namespace mortise::isolate
