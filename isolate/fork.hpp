// fork.hpp: fork, when memory is shared files that a fork would go on sharing.
#pragma once

#include <csignal>

namespace mortise::isolate {

/// What the kernel is asked for, as clone(2) has it: the signal of its end among the flags.
struct Child {
  long flags = SIGCHLD, parent_number = 0, child_number = 0, tls = 0;
};

/// Replacement of _Fork, which libc's fork() calls between its own preparations: the child gets copies of all shared
/// memory. Blocks until the copies are made. As _Fork: the child's pid, 0 in the child, or -1 with errno.
int fork_process() noexcept;

/// The same for a child with memory of its own that a program asks the kernel for: without CLONE_VM.
int make_child(const Child& child) noexcept;

}  // namespace mortise::isolate
