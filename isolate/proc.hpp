// proc.hpp: what the kernel tells of a process in its files under /proc.
#pragma once

#include <cstddef>

namespace mortise::isolate {

/// "<before><number><after>" with a final zero, without libc.
void format_path(char* out, const char* before, int number, const char* after) noexcept;

/// Reads /proc/PID/NAME, as much as there is room for, and puts a zero behind it. False where the system does not tell.
bool read_of_process(int pid, const char* name, char* text, std::size_t room) noexcept;

}  // namespace mortise::isolate
