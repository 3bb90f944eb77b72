// wait.hpp: waiting for a child that another thread has started.
#pragma once

#include <sys/resource.h>
#include <sys/wait.h>

namespace mortise::isolate {

/// Replacements of wait4, by way of which libc's waitpid and wait go, and of waitid. Points of cancellation.
int wait_for_child(pid_t pid, int* status, int options, rusage* usage);
int wait_for_id(idtype_t kind, id_t id, siginfo_t* info, int options);

}  // namespace mortise::isolate
