// early_moves.hpp: mremap of mappings of files, and of shared memory, from before the first create.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mortise::isolate {

/// Whether what lies there is one that was moved to a place which is recorded since.
bool is_moved_early_file(std::uintptr_t address) noexcept;

/// Before mremap moves [low, high), or makes it larger: one of which parts were written becomes memory altogether.
void make_written_early_file_memory(std::uintptr_t low, std::uintptr_t high) noexcept;

/// mremap of one, in every address space. The kernel's answer.
long move_early_file(std::uintptr_t at, std::size_t old_bytes, std::size_t new_bytes, int flags, std::uintptr_t target) noexcept;

}  // namespace mortise::isolate
