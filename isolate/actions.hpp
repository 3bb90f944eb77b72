// actions.hpp: signal handlers belong to the whole program; the kernel keeps them per address space.
#pragma once

#include <cerrno>
#include <csignal>

struct ucontext_t;

namespace mortise::isolate {

struct KernelAction;
class Lock;

/// Replacement of sigaction and signal: sets the action in every address space.
int exchange_action(int signal, const struct sigaction* action, struct sigaction* old) noexcept;

/// Whether this is how a handler of the program stands in an address space; and what the program has set for it.
bool is_handled_by_us(const KernelAction& action) noexcept;
KernelAction action_of(int signal) noexcept;

/// Counts in each thread handlers of the program, and those without SA_RESTART: what they interrupt ends.
unsigned handlers_run() noexcept;
unsigned calls_ended() noexcept;

/// Makes a call again that a signal of the runtime alone has ended. The kernel's answer.
template <class Call>
long until_interrupted(Call call) {
  long result;
  unsigned before;
  do {
    before = handlers_run();
    result = call();
  } while (result == -EINTR && handlers_run() == before);
  return result;
}

/// The program's handler of a signal that another has brought, with the mask and on the stack that it is to run with and on: what it
/// interrupts has others.
void deliver_as_kernel(siginfo_t& info, ucontext_t& context);

/// Before the first thread: handlers that are there run by way of ours from now on.
void take_over_actions() noexcept;

/// In a new thread: where the program handles a signal of a terminal, only the leader shall run the handler.
void leave_terminal_signals_to_leader() noexcept;

/// In the child of a fork, which handles all signals itself.
void take_terminal_signals_back() noexcept;

Lock& action_lock() noexcept;  // for tables.hpp

}  // namespace mortise::isolate
