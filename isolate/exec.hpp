// exec.hpp: exec, which replaces the whole program, called from any of its processes.
#pragma once

namespace mortise::isolate {

/// Replacement of execve, which most of libc's exec family ends in.
int execute(const char* path, char* const* arguments, char* const* environment) noexcept;

/// Replacements of execveat and fexecve.
int execute_at(int folder, const char* path, char* const* arguments, char* const* environment, int flags) noexcept;
int execute_descriptor(int fd, char* const* arguments, char* const* environment) noexcept;

}  // namespace mortise::isolate
