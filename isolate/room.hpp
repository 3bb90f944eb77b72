// room.hpp: what there is no room for. The runtime serves memory without asking the kernel, so it has to know itself.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mortise::isolate {

/// Whether a program has addresses for [low, low + bytes).
bool has_addresses(std::uintptr_t low, std::size_t bytes) noexcept;

/// Whether the kernel would refuse so much memory at once: more than the machine has, swap included, unless told to give all.
bool is_too_much(std::size_t bytes) noexcept;

}  // namespace mortise::isolate
