// file_copies.hpp: private mappings that are memory from the start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sys/types.h>

namespace mortise::isolate {

/// As fresh memory into which the file is read. MAP_FAILED with errno.
void* copy_file(void* where, std::size_t bytes, int protection, int flags, int fd, off_t offset) noexcept;

/// Of the private mapping at `from` what has been written to, and is memory.
void copy_written(void* to, std::uintptr_t from, std::size_t bytes) noexcept;

}  // namespace mortise::isolate
