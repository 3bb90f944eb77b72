// early_files.hpp: mappings of files from before the first thread that were not made shared memory then.
//
// Each address space has its own by inheritance, and no record tells of them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mortise::isolate {

/// mprotect of what is neither shared memory nor recorded, in every address space. What is opened to writing becomes memory: at once, or
/// where it is large when it is written. 0 or -errno.
long protect_early_file(std::uintptr_t low, std::size_t bytes, int protection) noexcept;

}  // namespace mortise::isolate
