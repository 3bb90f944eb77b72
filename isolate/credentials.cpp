// credentials.cpp: setuid and its relatives, in every address space, as glibc does for ordinary threads.
#include "credentials.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <sys/prctl.h>

#include "lock.hpp"
#include "message.hpp"
#include "orphans.hpp"
#include "raw.hpp"
#include "rendezvous.hpp"
#include "thread.hpp"

#ifndef PR_SET_MDWE  // since Linux 6.3
#define PR_SET_MDWE 65
#endif

namespace mortise::isolate {
namespace {

struct Call {
  long number, a, b, c;
  const Thread* caller = nullptr;
  long result = 0;
  int refused = 0, granted = 0;  // of the others
};

void perform(void* argument) {
  Call& call = *static_cast<Call*>(argument);
  const long result = change_credentials_here(call.number, call.a, call.b, call.c);
  if (self == call.caller) call.result = result;
  else shared(failed(result) ? call.refused : call.granted).fetch_add(1);
}

/// What glibc does, too: a program that has given up rights must not go on with a thread that still has them.
void end_where_threads_differ(const Call& call) noexcept {
  if ((failed(call.result) ? call.granted : call.refused) == 0) return;
  say("a change of user or group failed in some threads only; the program cannot go on");
  std::abort();
}

/// All threads have the same rights, so what one may all may. The caller comes last: with its new ids it could perhaps
/// no longer signal those that still have the old ones.
int change(Call call) noexcept {
  const bool a_thread = self && raw_getpid() == self->pid.load();  // and not a child about to exec
  if (a_thread && live_threads.load() > 1) {
    call.caller = self;
    everywhere(&perform, &call);
    end_where_threads_differ(call);
  } else {
    call.result = raw_syscall(call.number, call.a, call.b, call.c);
  }
  return failed(call.result) ? (errno = static_cast<int>(-call.result), -1) : 0;
}

struct Control {
  long option, argument, b, c, d, result = 0;
};

/// The kernel's mark of a thread's process is the runtime's; the program means its own, which is the leader's.
void control_leader(void* argument) {
  if (!is_leader()) return;
  Control& c = *static_cast<Control*>(argument);
  c.result = raw_syscall(SYS_prctl, c.option, c.argument);
}

/// All threads answer alike; the caller, who has the say, is the last.
void control(void* argument) noexcept {
  Control& c = *static_cast<Control*>(argument);
  const long result = raw_syscall(SYS_prctl, c.option, c.argument, c.b, c.c, c.d);
  shared(c.result).store(result);
}

constexpr long kKeep = -1;

/// Who the program says may trace it: Yama keeps that for a process, and no child has it.
constinit std::atomic<unsigned long> tracer{0};
constinit std::atomic<int> tracee{0};

/// Known first: threads that are being made are to learn of it as well.
void set_tracer(Control& c, unsigned long wanted) noexcept {
  if (self && !is_thread()) return control(&c);  // a child about to exec
  const int process = self ? leader->pid.load() : raw_getpid();
  const unsigned long before = tracee.exchange(process) == process ? tracer.load() : 0;
  tracer.store(wanted);
  if (self) everywhere(&control, &c);
  else control(&c);
  if (failed(c.result)) tracer.store(before);
}

}  // namespace

bool is_of_memory(int option) noexcept {
  return option == PR_SET_DUMPABLE || option == PR_SET_THP_DISABLE || option == PR_SET_PTRACER || option == PR_SET_MDWE;
}

long change_credentials_here(long number, long a, long b, long c) noexcept {
  const long result = raw_syscall(number, a, b, c);
  // The kernel forgets "die with the leader" when ids change.
  if (is_thread() && !is_leader()) raw_syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
  return result;
}

int set_fsuid(uid_t id) noexcept { return static_cast<int>(change_credentials_here(SYS_setfsuid, id)); }
int set_fsgid(gid_t id) noexcept { return static_cast<int>(change_credentials_here(SYS_setfsgid, id)); }

int set_uid(uid_t id) noexcept { return change({SYS_setuid, id, 0, 0}); }
int set_gid(gid_t id) noexcept { return change({SYS_setgid, id, 0, 0}); }
int set_reuid(uid_t real, uid_t effective) noexcept { return change({SYS_setreuid, real, effective, 0}); }
int set_regid(gid_t real, gid_t effective) noexcept { return change({SYS_setregid, real, effective, 0}); }
int set_resuid(uid_t real, uid_t effective, uid_t saved) noexcept {
  return change({SYS_setresuid, real, effective, saved});
}
int set_resgid(gid_t real, gid_t effective, gid_t saved) noexcept {
  return change({SYS_setresgid, real, effective, saved});
}
int set_euid(uid_t id) noexcept { return change({SYS_setresuid, kKeep, id, kKeep}); }
int set_egid(gid_t id) noexcept { return change({SYS_setresgid, kKeep, id, kKeep}); }
int control_process(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d) noexcept {
  const bool about_death = option == PR_SET_PDEATHSIG || option == PR_GET_PDEATHSIG;
  Control call{option, static_cast<long>(a), static_cast<long>(b), static_cast<long>(c), static_cast<long>(d)};
  if (option == PR_SET_CHILD_SUBREAPER && is_thread()) call.result = wish_to_take_in(a != 0);
  else if (option == PR_GET_CHILD_SUBREAPER && is_thread()) call.result = ask_to_take_in(reinterpret_cast<int*>(a));
  else if (about_death && is_thread() && !is_leader()) everywhere(&control_leader, &call);
  else if (option == PR_SET_PTRACER) set_tracer(call, a);
  else if (is_of_memory(option) && is_thread()) everywhere(&control, &call);
  else control(&call);
  return failed(call.result) ? (errno = static_cast<int>(-call.result), -1) : static_cast<int>(call.result);
}

void let_tracer_trace() noexcept {
  const unsigned long wanted = tracee.load() == leader->pid.load() ? tracer.load() : 0;
  if (wanted) raw_syscall(SYS_prctl, PR_SET_PTRACER, static_cast<long>(wanted));
}

int set_groups(std::size_t count, const gid_t* groups) noexcept {
  return change({SYS_setgroups, static_cast<long>(count), as_long(groups), 0});
}

}  // namespace mortise::isolate
