// actions.hpp: signal handlers belong to the whole program; the kernel keeps them per address space.
#pragma once

#include <csignal>

namespace mortise::isolate {

/// Replacement of sigaction and signal: sets the action in every address space.
int exchange_action(int signal, const struct sigaction* action, struct sigaction* old) noexcept;

}  // namespace mortise::isolate
