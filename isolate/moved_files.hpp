// moved_files.hpp: mremap of recorded mappings of files (file_maps.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace mortise::isolate {

/// Whether all of it is mapped from one file, one piece after the other.
bool is_one_file(std::uintptr_t low, std::uintptr_t high) noexcept;

/// mremap of the same: a new mapping at `target`, or anywhere if that is null. Where the old one stays, it is the file's again. MAP_FAILED
/// with errno.
void* move_file(std::uintptr_t low, std::size_t old_bytes, std::size_t new_bytes, void* target, bool stays) noexcept;

}  // namespace mortise::isolate
