// actions.cpp: sigaction for all threads.
//
//   in the table, for all    what the program has set
//   in each address space    SIG_DFL and SIG_IGN as they are, for programs started by exec inherit the latter
//                            a handler: ours, with the program's flags and mask, which looks the table up
//
// SIGSEGV stays with fault.cpp, which passes on what is not the runtime's own. A handler with SA_RESETHAND is taken out of
// the table when it runs; an address space where ours still stands for it does the default when the signal comes again.
// A signal that a terminal sends to every process of its group runs its handler in the leader only, so it runs once.
#include "actions.hpp"

#include <cerrno>
#include <cstring>
#include <ucontext.h>

#include "cancel.hpp"
#include "end.hpp"
#include "fault.hpp"
#include "lock.hpp"
#include "masks.hpp"
#include "on_stack.hpp"
#include "quiet.hpp"
#include "raw.hpp"
#include "rendezvous.hpp"
#include "restart.hpp"
#include "signal_marks.hpp"
#include "signal_pass.hpp"
#include "signal_wait.hpp"
#include "signals.hpp"
#include "thread.hpp"
#include "unbroken.hpp"

namespace mortise::isolate {
namespace {

constexpr int kLast = 64;
void* const kDefault = reinterpret_cast<void*>(SIG_DFL);
void* const kIgnore = reinterpret_cast<void*>(SIG_IGN);

struct Change {
  int signal;
  KernelAction action;
  bool is_noted = false;  // changed under the table's lock
};

constinit Lock table_lock;  // of Quiet: handlers look their action up
constinit KernelAction table[kLast + 1]{};
__thread unsigned run = 0, ended = 0;

bool is_handler(const void* h) noexcept { return h != kDefault && h != kIgnore; }

/// In whichever address space the change comes to first: ours never stands where the table has what was before.
void note(Change& change) noexcept {
  const KernelAction action = change.action;  // before faults are blocked: the caller's stack may be new here
  if (shared(change.is_noted).load()) return;
  Quiet held(table_lock);
  if (!change.is_noted) table[change.signal] = action;
  shared(change.is_noted).store(true);
}

KernelAction take_action(int signal) noexcept {
  Quiet held(table_lock);
  const KernelAction action = table[signal], by_default{};
  if (action.handler == kDefault) set_action(signal, &by_default, nullptr);  // another thread's handler was the last one
  if (is_handler(action.handler) && (action.flags & SA_RESETHAND)) table[signal].handler = kDefault;
  return action;
}

void do_default(int signal, const siginfo_t& info) noexcept {
  stop_other_threads_before(signal);
  if (info.si_code <= 0 || info.si_code == SI_KERNEL) raw_syscall(SYS_tgkill, raw_getpid(), raw_gettid(), signal);
}

bool restarts_for_group(int signal) noexcept { return comes_from_terminal(signal) && is_thread() && !is_leader(); }

std::uint64_t let_in_after(const ucontext_t& interrupted) noexcept {
  std::uint64_t mask;
  std::memcpy(&mask, &interrupted.uc_sigmask, sizeof mask);
  return ~mask;
}

void run_handler(int signal, siginfo_t* info, ucontext_t& interrupted) {
  if (put_off(signal, *info, interrupted)) return;
  if (restarts_for_group(signal) && is_sent_to_group(*info)) return restart_system_call(interrupted);
  const KernelAction action = take_action(signal);
  if (action.handler == kDefault) return do_default(signal, *info);
  if (action.handler == kIgnore) return;
  unmark_passed_on(*info);
  ++run;
  if (!(action.flags & SA_RESTART)) ++ended;
  if (restarts_for_group(signal) && !(action.flags & SA_RESTART)) end_system_call(interrupted);
  const Awaiting awaited = stop_awaiting();
  reinterpret_cast<void (*)(int, siginfo_t*, void*)>(action.handler)(signal, info, &interrupted);
  await_again(awaited);
  if (is_leader()) have_each_back(let_in_after(interrupted));
  else handler_ends(signal);
}

void deliver(int signal, siginfo_t* info, void* context) {
  auto& interrupted = *static_cast<ucontext_t*>(context);
  run_handler(signal, info, interrupted);
  end_cancelled_wait(interrupted);
}

struct Delivery {
  siginfo_t* info;
  ucontext_t* context;
  std::uint64_t mask;
};

long deliver_it(void* delivery) {
  const Delivery d = *static_cast<Delivery*>(delivery);
  restore_signals(d.mask);  // here: what comes now interrupts this handler, and has its stack
  return deliver(d.info->si_signo, d.info, d.context), 0;
}

/// The top of the alternate stack of who was interrupted; null where there is none, or it is on it already. One that is to be disarmed is
/// so with any signal, until that returns.
void* own_stack(const ucontext_t& context) noexcept {
  constexpr unsigned kAutoDisarm = 1u << 31;
  const stack_t& own = context.uc_stack;
  auto* const low = static_cast<std::byte*>(own.ss_sp);
  const auto depth = static_cast<std::uintptr_t>(context.uc_mcontext.gregs[REG_RSP]) - reinterpret_cast<std::uintptr_t>(low);
  const bool is_there = !(static_cast<unsigned>(own.ss_flags) & kAutoDisarm) && depth - 1 < own.ss_size;
  return own.ss_size == 0 || is_there ? nullptr : low + own.ss_size;
}

void set_here(int signal, KernelAction action) noexcept {
  if (is_handler(action.handler)) {
    action.handler = reinterpret_cast<void*>(&deliver);
    action.flags = (action.flags | SA_SIGINFO) & ~static_cast<unsigned long>(SA_RESETHAND);
    if (restarts_for_group(signal)) action.flags |= SA_RESTART;
  }
  set_action(signal, &action, nullptr);
}

void apply(void* argument) {
  Change& change = *static_cast<Change*>(argument);
  note(change);
  set_here(change.signal, change.action);
}

KernelAction to_kernel(const struct sigaction& a) noexcept {
  KernelAction k{};
  k.handler = reinterpret_cast<void*>(a.sa_handler);
  k.flags = static_cast<unsigned long>(a.sa_flags);
  std::memcpy(&k.mask, &a.sa_mask, sizeof k.mask);
  k.mask = blockable(k.mask);
  return k;
}

void from_kernel(const KernelAction& k, struct sigaction& a) noexcept {
  a = {};
  a.sa_handler = reinterpret_cast<void (*)(int)>(k.handler);
  a.sa_flags = static_cast<int>(k.flags & ~0x04000000ul);
  std::memcpy(&a.sa_mask, &k.mask, sizeof k.mask);
}

/// Where it matters who the leader is.
void set_terminal_signals_here() noexcept {
  for (int signal = 1; signal <= SIGWINCH; ++signal)
    if (comes_from_terminal(signal) && is_handler(table[signal].handler) && !(table[signal].flags & SA_RESTART))
      set_here(signal, table[signal]);
}

}  // namespace

unsigned handlers_run() noexcept { return run; }
unsigned calls_ended() noexcept { return ended; }

bool is_handled_by_us(const KernelAction& action) noexcept { return action.handler == reinterpret_cast<void*>(&deliver); }

KernelAction action_of(int signal) noexcept {
  Quiet held(table_lock);
  return table[signal];
}

void deliver_as_kernel(siginfo_t& info, ucontext_t& context) {
  const KernelAction action = action_of(info.si_signo);
  Delivery d{&info, &context, 0};
  std::memcpy(&d.mask, &context.uc_sigmask, sizeof d.mask);
  d.mask |= action.mask;
  if (!(action.flags & SA_NODEFER)) d.mask |= 1ull << (info.si_signo - 1);
  void* const stack = action.flags & SA_ONSTACK ? own_stack(context) : nullptr;
  if (stack) mortise_isolate_call_on_stack(&deliver_it, &d, stack);
  else deliver_it(&d);
}

void take_over_actions() noexcept {
  for (int signal = 1; signal <= kLast; ++signal) {
    KernelAction now{};
    const bool is_taken = signal == SIGSEGV || signal == 32 || signal == 33;
    if (is_taken || failed(set_action(signal, nullptr, &now))) continue;
    now.mask = blockable(now.mask);
    table[signal] = now;
    if (is_handler(now.handler)) set_here(signal, now);
  }
}

void leave_terminal_signals_to_leader() noexcept {
  Quiet held(table_lock);
  set_terminal_signals_here();
}

void take_terminal_signals_back() noexcept { set_terminal_signals_here(); }

Lock& action_lock() noexcept { return table_lock; }

int exchange_action(int signal, const struct sigaction* action, struct sigaction* old) noexcept {
  if (signal == 32 || signal == 33) return errno = EINVAL, -1;
  const bool a_thread = is_thread();  // and not a child about to exec
  if (signal == SIGSEGV && a_thread) {
    exchange_program_fault_action(action, old);
    return 0;
  }
  KernelAction now{}, wanted{};
  if (action) wanted = to_kernel(*action);
  const long result = set_action(signal, action && !a_thread ? &wanted : nullptr, &now);
  if (failed(result)) return errno = static_cast<int>(-result), -1;
  if (is_handled_by_us(now)) now = action_of(signal);
  if (action && (signal == SIGKILL || signal == SIGSTOP)) return errno = EINVAL, -1;
  if (old) from_kernel(now, *old);
  if (!action || !a_thread) return 0;
  Change change{signal, wanted};
  if (is_leader() && live_threads.load() == 1) apply(&change);
  else everywhere(&apply, &change);
  return 0;
}

}  // namespace mortise::isolate
