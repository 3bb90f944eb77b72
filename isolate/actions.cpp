// actions.cpp: sigaction for all threads.
//
// SIGSEGV stays with the runtime, which passes on what is not its own. A handler for a signal that a terminal sends to
// every process of its group is installed in the leader only; the other threads ignore it, so it runs once.
#include "actions.hpp"

#include <cerrno>
#include <cstring>

#include "fault.hpp"
#include "masks.hpp"
#include "raw.hpp"
#include "rendezvous.hpp"
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

void apply(void* argument) {
  Change change = *static_cast<const Change*>(argument);
  if (!is_leader() && comes_from_terminal(change.signal) && is_handler(change.action.handler))
    change.action.handler = reinterpret_cast<void*>(SIG_IGN);
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

int exchange_action(int signal, const struct sigaction* action, struct sigaction* old) noexcept {
  if (signal == 32 || signal == 33) return errno = EINVAL, -1;
  const bool a_thread = self && raw_getpid() == self->pid.load();  // and not a child about to exec
  if (signal == SIGSEGV && a_thread) {
    exchange_program_fault_action(action, old);
    return 0;
  }
  KernelAction now{}, wanted{};
  if (action) wanted = to_kernel(*action);
  const bool alone = !a_thread || live_threads.load() == 1;
  const long result = set_action(signal, action && alone ? &wanted : nullptr, &now);
  if (failed(result)) return errno = static_cast<int>(-result), -1;
  if (action && (signal == SIGKILL || signal == SIGSTOP)) return errno = EINVAL, -1;
  if (old) from_kernel(now, *old);
  if (action && !alone) {
    Change change{signal, wanted};
    everywhere(&apply, &change);
  }
  return 0;
}

}  // namespace mortise::isolate
