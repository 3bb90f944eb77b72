// memory.hpp: the memory calls of an armed program. Replacements of libc's entries, so that libc's own malloc is
// served too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sys/types.h>

namespace mortise::isolate {

void* map_memory(void* where, std::size_t bytes, int protection, int flags, int fd, off_t offset) noexcept;
/// What an allocator reserves stays accessible (callers.hpp).
void* map_memory_for(bool allocator, void* where, std::size_t bytes, int protection, int flags, int fd, off_t offset) noexcept;
/// mmap of private memory without a file.
void* map_private(void* where, std::size_t bytes, int protection, int flags) noexcept;
int unmap_memory(void* low, std::size_t bytes) noexcept;
int protect_memory(void* low, std::size_t bytes, int protection) noexcept;
/// Replacement of pkey_alloc: what a key protects, it protects in one address space, so there are none.
int allocate_key(unsigned flags, unsigned rights) noexcept;
int advise_memory(void* low, std::size_t bytes, int advice) noexcept;
int set_break(void* end) noexcept;
void* move_break(std::intptr_t by) noexcept;

/// Any of these by its number: the kernel's answer.
long memory_call(bool by_allocator, long number, long a, long b, long c, long d, long e, long f) noexcept;

}  // namespace mortise::isolate

/// What our own allocators call instead of the kernel (include/mortise/os/isolation.hpp): the kernel's answer.
extern "C" __attribute__((visibility("default"))) long mortise_isolate_memory_call(long number, long a, long b, long c,
                                                                                   long d, long e, long f);
