// actions.cpp: sigaction for all threads.
//
// SIGSEGV stays with the runtime, which passes on what is not its own. A handler for a signal that a terminal sends to
// every process of its group is installed in the leader only, so it runs once. The other threads have a handler of ours
// in its place, and the program's action in a table: ignoring the signal would be inherited by what they start.
#include "actions.hpp"

#include <cerrno>
#include <cstring>
#include <ucontext.h>

#include "fault.hpp"
#include "lock.hpp"
#include "masks.hpp"
#include "raw.hpp"
#include "rendezvous.hpp"
#include "restart.hpp"
#include "signals.hpp"
#include "thread.hpp"

namespace mortise::isolate {
namespace {

struct Change {
  int signal;
  KernelAction action;
};

bool is_handler(const void* h) noexcept {
  return h != reinterpret_cast<void*>(SIG_DFL) && h != reinterpret_cast<void*>(SIG_IGN);
}

constexpr int kLastOfTerminal = SIGTSTP;
constinit Lock table_lock;  // taken with signals blocked
constinit KernelAction in_leader[kLastOfTerminal + 1]{};

KernelAction look_up(int signal) noexcept {
  const std::uint64_t mask = block_signals();
  table_lock.acquire();
  const KernelAction action = in_leader[signal];
  table_lock.release();
  restore_signals(mask);
  return action;
}

void note(int signal, const KernelAction& action) noexcept {
  if (!comes_from_terminal(signal)) return;
  const std::uint64_t mask = block_signals();
  table_lock.acquire();
  in_leader[signal] = action;
  table_lock.release();
  restore_signals(mask);
}

/// What is sent to the whole group is main's to handle; what is sent to this thread only is not.
void on_terminal_signal(int signal, siginfo_t* info, void* context) {
  const int kept = errno;
  const KernelAction action = look_up(signal);
  auto& interrupted = *static_cast<ucontext_t*>(context);
  if (info->si_code != SI_TKILL || !is_handler(action.handler)) {
    restart_system_call(interrupted);
  } else {
    if (!(action.flags & SA_RESTART)) end_system_call(interrupted);
    reinterpret_cast<void (*)(int, siginfo_t*, void*)>(action.handler)(signal, info, context);
  }
  errno = kept;
}

bool is_ours(const KernelAction& a) noexcept { return a.handler == reinterpret_cast<void*>(&on_terminal_signal); }

void set_in_thread(int signal, KernelAction action) noexcept {
  if (comes_from_terminal(signal) && is_handler(action.handler)) {
    action.handler = reinterpret_cast<void*>(&on_terminal_signal);
    action.flags = (action.flags | SA_SIGINFO | SA_RESTART) & ~static_cast<unsigned long>(SA_RESETHAND);
  }
  set_action(signal, &action, nullptr);
}

void apply(void* argument) {
  const Change change = *static_cast<const Change*>(argument);
  if (!is_leader()) return set_in_thread(change.signal, change.action);
  note(change.signal, change.action);
  set_action(change.signal, &change.action, nullptr);
}

KernelAction to_kernel(const struct sigaction& a) noexcept {
  KernelAction k{};
  k.handler = reinterpret_cast<void*>(a.sa_handler);
  k.flags = static_cast<unsigned long>(a.sa_flags);
  std::memcpy(&k.mask, &a.sa_mask, sizeof k.mask);
  k.mask = without_faults(k.mask);
  return k;
}

void from_kernel(const KernelAction& k, struct sigaction& a) noexcept {
  a = {};
  a.sa_handler = reinterpret_cast<void (*)(int)>(k.handler);
  a.sa_flags = static_cast<int>(k.flags & ~0x04000000ul);
  std::memcpy(&a.sa_mask, &k.mask, sizeof k.mask);
}

}  // namespace

void note_terminal_signals() noexcept {
  KernelAction now{};
  for (int signal = 1; signal <= kLastOfTerminal; ++signal)
    if (comes_from_terminal(signal) && !failed(set_action(signal, nullptr, &now))) note(signal, now);
}

void leave_terminal_signals_to_leader() noexcept {
  KernelAction now{};
  for (int signal = 1; signal <= kLastOfTerminal; ++signal)
    if (comes_from_terminal(signal) && !failed(set_action(signal, nullptr, &now)) && !is_ours(now)) set_in_thread(signal, now);
}

void take_terminal_signals_back() noexcept {
  table_lock.reset();
  KernelAction now{};
  for (int signal = 1; signal <= kLastOfTerminal; ++signal)
    if (comes_from_terminal(signal) && !failed(set_action(signal, nullptr, &now)) && is_ours(now))
      set_action(signal, &in_leader[signal], nullptr);
}

int exchange_action(int signal, const struct sigaction* action, struct sigaction* old) noexcept {
  if (signal == 32 || signal == 33) return errno = EINVAL, -1;
  const bool a_thread = self && raw_getpid() == self->pid.load();  // and not a child about to exec
  if (signal == SIGSEGV && a_thread) {
    exchange_program_fault_action(action, old);
    return 0;
  }
  KernelAction now{}, wanted{};
  if (action) wanted = to_kernel(*action);
  const bool alone = !a_thread || (is_leader() && live_threads.load() == 1);
  const long result = set_action(signal, action && alone ? &wanted : nullptr, &now);
  if (failed(result)) return errno = static_cast<int>(-result), -1;
  if (is_ours(now)) now = look_up(signal);
  if (action && alone && a_thread) note(signal, wanted);
  if (action && (signal == SIGKILL || signal == SIGSTOP)) return errno = EINVAL, -1;
  if (old) from_kernel(now, *old);
  if (action && !alone) {
    Change change{signal, wanted};
    everywhere(&apply, &change);
  }
  return 0;
}

}  // namespace mortise::isolate
