// proc.hpp: what the kernel tells of a process in its files under /proc.
//
// Without libc's numbers, too: they look at the program's locale, a mapping of a file that another thread may have made. The runtime's
// own kernel threads could not catch up with it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mortise::isolate {

/// "<before><number><after>" with a final zero, without libc.
void format_path(char* out, const char* before, int number, const char* after) noexcept;

/// Reads /proc/PID/NAME, as much as there is room for, and puts a zero behind it. False where the system does not tell.
bool read_of_process(int pid, const char* name, char* text, std::size_t room) noexcept;

/// The same of /proc/self/fdinfo/FD.
bool read_of_descriptor(int fd, char* text, std::size_t room) noexcept;

/// The number of base 10 or 16 that begins at `at`, which is moved behind it. 0: none begins there.
std::uint64_t read_number(const char*& at, unsigned base) noexcept;

}  // namespace mortise::isolate
