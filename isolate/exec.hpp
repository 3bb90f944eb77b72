// exec.hpp: exec, which replaces the whole program, called from any of its processes.
#pragma once

namespace mortise::isolate {

/// Replacement of execve, which libc's whole exec family ends in.
int execute(const char* path, char* const* arguments, char* const* environment) noexcept;

}  // namespace mortise::isolate
