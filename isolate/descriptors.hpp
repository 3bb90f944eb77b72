// descriptors.hpp: the runtime's own descriptors.
#pragma once

#include <cstddef>

namespace mortise::isolate {

/// A file in memory of `bytes`, or -errno.
long open_memory_file(const char* name, std::size_t bytes) noexcept;

}  // namespace mortise::isolate
