// fork.hpp: fork, when memory is shared files that a fork would go on sharing.
#pragma once

namespace mortise::isolate {

/// Replacement of _Fork, which libc's fork() calls between its own preparations: the child gets copies of all shared
/// memory. Blocks until the copies are made. As _Fork: the child's pid, 0 in the child, or -1 with errno.
int fork_process() noexcept;

}  // namespace mortise::isolate
