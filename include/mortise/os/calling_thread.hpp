// Which thread this is, without a system call.
#pragma once

namespace mortise::os {

/// Another one for each thread that lives.
inline const void* calling_thread() noexcept { return __builtin_thread_pointer(); }

}  // namespace mortise::os
