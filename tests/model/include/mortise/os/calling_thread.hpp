// The explorer's side of include/mortise/os/calling_thread.hpp: which logical thread this is.
#pragma once

#include "explorer/hooks.hpp"

namespace mortise::os {

inline const void* calling_thread() noexcept { return model::hooks::thread(); }

}  // namespace mortise::os
