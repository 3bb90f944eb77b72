// left_files.hpp: mappings of files that one thread has unmapped and others still have, which nobody notices.
//
// Addresses of such mappings are handed out once. So all threads lose them together, before they have more mappings than the kernel allows.
#pragma once

#include <cstdint>

namespace mortise::isolate {

/// Others still have [low, high). The lock of file_maps.hpp is held, as below.
void note_left(std::uintptr_t low, std::uintptr_t high) noexcept;

/// Something new lies there, in every address space.
void forget_left(std::uintptr_t low, std::uintptr_t high) noexcept;

/// Whether there is room for no more; and unmaps them everywhere. No lock is held.
bool is_left_full() noexcept;
void drop_left() noexcept;

/// In the child of a fork: whoever was dropping them is not there.
void forget_droppers() noexcept;

}  // namespace mortise::isolate
