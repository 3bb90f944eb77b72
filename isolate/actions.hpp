// actions.hpp: signal handlers belong to the whole program; the kernel keeps them per address space.
#pragma once

#include <csignal>

namespace mortise::isolate {

/// Replacement of sigaction and signal: sets the action in every address space.
int exchange_action(int signal, const struct sigaction* action, struct sigaction* old) noexcept;

/// Before the first thread: what the program does with signals of a terminal.
void note_terminal_signals() noexcept;

/// In a new thread: where the program handles such a signal, only the leader shall run the handler.
void leave_terminal_signals_to_leader() noexcept;

/// In the child of a fork, which handles all signals itself.
void take_terminal_signals_back() noexcept;

}  // namespace mortise::isolate
