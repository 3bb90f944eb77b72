// keys.hpp: thread-specific data. glibc's own keys work unchanged (their table and each thread's values lie in shared
// memory); only the destructors at a thread's end are ours to run.
#pragma once

namespace mortise::isolate {

/// Calls the destructors of the calling thread's values, in rounds, as POSIX says.
void run_key_destructors();

}  // namespace mortise::isolate
