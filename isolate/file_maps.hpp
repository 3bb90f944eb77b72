// file_maps.hpp: mappings of files (and shared anonymous memory) made after the first create.
//
// They get addresses that no thread uses for anything else. The thread that maps has its mapping at once; the record
// keeps a duplicate of the descriptor, with which any other thread makes the same mapping when it first touches it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sys/types.h>

namespace mortise::isolate {

class Lock;

void* map_file(void* where, std::size_t bytes, int protection, int flags, int fd, off_t offset) noexcept;

/// Address space for a mapping that is not recorded here. 0: there is none left.
std::uintptr_t take_file_place(std::size_t bytes) noexcept;

/// Gives its end back, which no address space has mapped any more: it is used again if it was the last.
void give_file_place(std::uintptr_t low, std::size_t bytes) noexcept;

/// Whether mappings that were given no place of their own may lie there. Cheap.
bool in_file_window(std::uintptr_t address) noexcept;

/// Whether mappings of files lie near, or the next ones would.
bool lies_among_files(std::uintptr_t address) noexcept;

/// Whether one ever lay in the region. Cheap.
bool has_files_in_region() noexcept;

/// Whether a recorded mapping has a part in [low, high).
bool has_mapped_file(std::uintptr_t low, std::uintptr_t high) noexcept;

/// [low, the answer) is all of one recorded mapping, or of none: what a call on [low, high) does to it is one thing.
std::uintptr_t piece_end(std::uintptr_t low, std::uintptr_t high) noexcept;

/// munmap of recorded mappings, whole or in part. 0, -errno, or kNoFile: none is at `low`.
inline constexpr long kNoFile = 1;
long unmap_file(std::uintptr_t low, std::size_t bytes) noexcept;

/// mprotect of what is all one recorded mapping; others catch up. 0, -errno, or kNoFile.
long protect_file(std::uintptr_t low, std::size_t bytes, int protection) noexcept;

struct FoundFile {
  std::uintptr_t low, high;
  off_t offset;
  int held, protection, flags;
};
/// The recorded mapping around `address`; `hold`: its descriptor has one user more.
bool find_file(std::uintptr_t address, FoundFile& out, bool hold = false) noexcept;

/// Records what every address space has there already, whose file nobody can open again: a mapping from before the first thread that was
/// moved. False: no room is left.
bool note_early_file(std::uintptr_t low, std::uintptr_t high, int protection, int flags) noexcept;

/// Whether forget_files() there, which may leave two parts of one mapping, has room to record both.
bool make_room_to_cut(std::uintptr_t low, std::uintptr_t high) noexcept;

/// Forgets recorded mappings, whole or in part: something else is about to be mapped there in every address space.
void forget_files(std::uintptr_t low, std::size_t bytes) noexcept;

/// On a fault at `address`: makes the mapping here if another thread has made it. True when the access may be tried
/// again.
bool catch_up_file(std::uintptr_t address) noexcept;

/// The same where it is there, with less than the rights `needed` that another thread has given it.
bool catch_up_file_rights(std::uintptr_t address, int needed) noexcept;

Lock& file_lock() noexcept;  // for tables.hpp

}  // namespace mortise::isolate
