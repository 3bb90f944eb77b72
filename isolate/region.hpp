// region.hpp: the address range that every thread maps alike, from which memory is given out after the first create.
//
//   10 TiB (0xa0000000000)                                     each arena: one file in memory
//   | arena 0, 64 GB | arena 1 | ...          | arena 15 |     (threads take turns, so that they
//   | given | free | given |  never touched ...                do not meet in one file's locks)
//
// Taking a range is a user-space operation: the pages are mapped in all address spaces from the start and come into
// being when touched. Nothing here enters the kernel but giving pages back.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mortise::isolate {

class Lock;

inline constexpr std::uintptr_t kRegionLow = 10ull << 40;
inline constexpr std::size_t kArenaBytes = 64ull << 30;
inline constexpr int kArenaCount = 16;
inline constexpr std::uintptr_t kRegionHigh = kRegionLow + kArenaBytes * kArenaCount;

/// A core dump would bring in every page of a mapping, a terabyte here: arenas are left out of it (done by open_region, and
/// once more after mapping them anew) until a process that is about to end lets those in that were ever given out.
void leave_out_of_dumps(int arena) noexcept;
void let_into_dump() noexcept;

inline bool in_region(std::uintptr_t address) noexcept { return address - kRegionLow < kRegionHigh - kRegionLow; }

/// Replacement of mlockall. The arenas are far larger than memory: what is locked is what is touched.
int lock_all_memory(int flags) noexcept;

/// munlock and MADV_REMOVE, which refuses locked memory: the range reads as zeros everywhere.
void punch(std::uintptr_t low, std::size_t bytes) noexcept;

/// Maps the arenas. Returns null, or what went wrong.
const char* open_region() noexcept;

/// Whether the caller will write the start of what it takes at once, so that its first pages may as well be brought in.
enum class FirstTouch { unknown, soon };

/// Takes `bytes` (rounded up to pages) of zeroed memory for the calling thread, or 0. Thread-safe; takes one short
/// lock.
std::uintptr_t take_pages(std::size_t bytes, FirstTouch touch = FirstTouch::unknown) noexcept;

/// Gives any part of taken ranges back. Its contents are dropped: at once, or later in a batch.
void give_pages(std::uintptr_t low, std::size_t bytes) noexcept;

/// Takes [low, low + bytes) itself, to grow a range in place. False when some of it is taken.
bool take_pages_at(std::uintptr_t low, std::size_t bytes) noexcept;

/// Whether all of [low, low + bytes) is given out.
bool are_taken(std::uintptr_t low, std::size_t bytes) noexcept;

/// Takes [low, low + bytes) itself, whatever of it was taken before: MAP_FIXED.
void claim_pages(std::uintptr_t low, std::size_t bytes) noexcept;

/// Where the arena at `index` begins, and the end of what was ever given out in it: what fork copies.
std::uintptr_t arena_low(int index) noexcept;
std::uintptr_t arena_touched_end(int index) noexcept;

Lock& arena_lock(int index) noexcept;  // for tables.hpp

}  // namespace mortise::isolate
