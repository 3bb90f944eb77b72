// The functions that ours stand in front of: whatever comes next in the program's search order, usually libc's.
#pragma once

#include <cstddef>

#include "abi/places.hpp"

namespace mortise::abi {

/// Frees a block that is not ours (made by libc before we were there, or behind our back). Ignored when nobody comes
/// next.
void next_free(void* p) noexcept;
/// Null when nobody comes next. While that is being looked up, from a few bytes of our own.
void* next_allocate(std::size_t size, std::size_t align, bool zeroed) noexcept;
void* next_realloc(void* p, std::size_t size) noexcept;
std::size_t next_usable_size(void* p) noexcept;

/// A symbol of what was loaded together with whoever holds this address. Null when there is none.
void* find_beside(const void* address, const char* name) noexcept;

/// The malloc that the program calls where others stand in front of ours: preloaded before us, a sanitizer's, or everybody's when
/// we were opened by dlopen. Its file is empty when it is ours. Weak: a library without malloc has none to look for. Not before
/// the loader has finished. O(mappings).
[[gnu::weak, gnu::visibility("hidden")]] Place malloc_in_front() noexcept;

}  // namespace mortise::abi
