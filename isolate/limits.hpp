// limits.hpp: limits on resources belong to the whole program; the kernel keeps them per process.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

namespace mortise::isolate {

/// Replacements of setrlimit and prlimit: what is set for the program is set in every thread.
int set_limit(__rlimit_resource_t resource, const rlimit* limit) noexcept;
int exchange_limit(pid_t pid, __rlimit_resource resource, const rlimit* limit, rlimit* old) noexcept;

}  // namespace mortise::isolate
