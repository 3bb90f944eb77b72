// segments.hpp: System V shared memory is attached in every address space.
#pragma once

namespace mortise::isolate {

/// Replacements of shmat and shmdt.
void* attach_segment(int id, const void* where, int flags) noexcept;
int detach_segment(const void* at) noexcept;

}  // namespace mortise::isolate
