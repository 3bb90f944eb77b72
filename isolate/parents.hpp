// parents.hpp: getppid, where parents are programs rather than threads' processes.
#pragma once

namespace mortise::isolate {

/// Replacements of getpid and getppid.
int program_process() noexcept;
int parent_process() noexcept;

/// For the kernel: the thread's or other process that `pid` is a child of; 0 where the system does not tell.
int kernel_parent_of(int pid) noexcept;

/// In the child of a fork, before it takes itself for the program: whose child it is.
void note_parent() noexcept;

}  // namespace mortise::isolate
