// signals.hpp: signal masks and handlers, per address space.
#pragma once

#include <csignal>
#include <cstdint>

namespace mortise::isolate {

/// Blocks every signal, the runtime's own included; returns the mask to restore.
std::uint64_t block_signals() noexcept;
void restore_signals(std::uint64_t mask) noexcept;

/// What may run a handler of the program, or end the thread by cancellation: all but tasks of a rendezvous and faults.
inline constexpr std::uint64_t kProgramSignals = ~(1ull << (33 - 1) | 1ull << (SIGSEGV - 1));

/// Blocks these.
std::uint64_t block_program_signals() noexcept;

/// While one lives no signal is handled here. Costs two system calls, and none inside another.
class NoSignals {
 public:
  NoSignals() noexcept;
  ~NoSignals();
  NoSignals(const NoSignals&) = delete;

 private:
  bool is_outer_;
  std::uint64_t mask_ = 0;
};

/// The kernel's form of a signal action.
struct KernelAction {
  void* handler;
  unsigned long flags;
  void* restorer;
  std::uint64_t mask;
};

/// Sets and gets actions without libc. `action` or `old` may be null. Supplies the restorer.
long set_action(int signal, const KernelAction* action, KernelAction* old) noexcept;

/// Sends one of the runtime's own to a process. Where as many are queued as may be it comes as if by kill(), which needs no place there.
void send_own_signal(int pid, int signal) noexcept;

/// A terminal, and the shell in it, sends its signals to every process of the group (actions.hpp).
bool comes_from_terminal(int signal) noexcept;

/// Whether such a copy of main's signal was sent here, as every process of the group has one, rather than to this thread.
bool is_sent_to_group(const siginfo_t& info) noexcept;

}  // namespace mortise::isolate
