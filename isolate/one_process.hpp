// one_process.hpp: calls that reach one thread's process where the program means all of itself, told of in a line each, once.
#pragma once

#include <sys/types.h>

namespace mortise::isolate {

/// Replacements: the kernel's calls.
pid_t new_session() noexcept;
int set_process_group(pid_t pid, pid_t group) noexcept;

/// Before a signal that stops whoever has it is sent to the calling thread.
void tell_of_stop(int signal) noexcept;

}  // namespace mortise::isolate
