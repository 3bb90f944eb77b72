// remap.hpp: mremap once threads live apart.
#pragma once

#include <cstddef>

namespace mortise::isolate {

void* remap_memory(void* low, std::size_t old_bytes, std::size_t new_bytes, int flags, ...) noexcept;

}  // namespace mortise::isolate
