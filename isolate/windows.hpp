// windows.hpp: address ranges of the program's own choosing.
//
// Some allocators map at exact addresses inside a window they picked (MAP_FIXED, MAP_FIXED_NOREPLACE). The first such
// call makes the whole gigabyte around it shared memory in every address space; the calls after it are bookkeeping.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mortise::isolate {

class Lock;

/// Anonymous memory at exactly [low, low + bytes): zeroed, seen by all threads. With `keep` an occupied range is left
/// alone. `low`, or -errno (-EEXIST: occupied).
long map_in_window(std::uintptr_t low, std::size_t bytes, bool keep) noexcept;

/// The same anywhere in the second gigabyte, where the kernel maps what is to lie below the fourth (MAP_32BIT).
long map_low(std::size_t bytes) noexcept;

/// Whether `address` lies in a window.
bool in_window(std::uintptr_t address) noexcept;

/// Marks [low, low + bytes) of windows as free again; the contents are dropped by the caller.
void free_in_window(std::uintptr_t low, std::size_t bytes) noexcept;

Lock& window_lock() noexcept;  // for tables.hpp

}  // namespace mortise::isolate
