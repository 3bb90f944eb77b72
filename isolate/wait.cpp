// wait.cpp: for the kernel a child belongs to the thread that started it; programs wait for it in any.
//
//   the calling thread's child   the kernel's call, as ever
//   another thread's             ECHILD: a pidfd tells when it ends; then the thread that it belongs to reaps it in a rendezvous
//
// This goes for one child named by its number. Whoever waits for any gets the calling thread's.
#include "wait.hpp"

#include <cerrno>
#include <poll.h>

#include "actions.hpp"
#include "cancel.hpp"
#include "parents.hpp"
#include "raw.hpp"
#include "rendezvous.hpp"
#include "thread.hpp"

namespace mortise::isolate {
namespace {

/// One wait call, either of the two.
struct Wait {
  bool by_id;
  int pid, options;
  int status;
  siginfo_t info;
  rusage usage;
  long result;  // of the kernel
};

using SystemCall = decltype(&cancellable_call);
long at_once(long number, long a, long b, long c, long d, long e, long f) { return raw_syscall(number, a, b, c, d, e, f); }

long call(SystemCall make, Wait& w, int also) {
  const long status = as_long(&w.status), info = as_long(&w.info), usage = as_long(&w.usage);
  if (!w.by_id) return make(SYS_wait4, w.pid, status, w.options | also, usage, 0, 0);
  w.info.si_pid = 0;
  return make(SYS_waitid, P_PID, w.pid, info, w.options | also, usage, 0);
}

/// In every address space: whoever's child it is.
void reap(void* argument) {
  Wait& w = *static_cast<Wait*>(argument);
  if (w.result != -ECHILD) return;
  Wait mine = w;  // the kernel writes to memory that this thread has
  mine.result = call(&at_once, mine, WNOHANG);
  if (mine.result != -ECHILD) w = mine;
}

bool is_anothers_child(int pid) noexcept {
  const int parent = kernel_parent_of(pid);
  const Thread* const t = parent > 0 ? find_thread_by_pid(parent) : nullptr;
  return t && t != self;
}

/// Until the process ends. 0, or -EINTR where a handler ended the call.
long wait_for_end(int pidfd) {
  pollfd end{pidfd, POLLIN, 0};
  const unsigned before = calls_ended();
  long result;
  do result = cancellable_call(SYS_poll, as_long(&end), 1, -1);
  while (result == -EINTR && calls_ended() == before);
  return result == -EINTR ? result : 0;
}

long wait_for_anothers(Wait& w) {
  constexpr int kNotTheEnd = WUNTRACED | WCONTINUED;  // of waitid: WSTOPPED and WCONTINUED; a pidfd does not tell
  if (w.by_id && !(w.options & WEXITED)) return -ECHILD;
  const long pidfd = is_anothers_child(w.pid) ? raw_syscall(SYS_pidfd_open, w.pid, 0) : -ECHILD;
  if (failed(pidfd)) return -ECHILD;
  long result = 0;
  pollfd end{static_cast<int>(pidfd), POLLIN, 0};
  const bool only_looks = w.options & WNOHANG;
  if (!only_looks) result = wait_for_end(static_cast<int>(pidfd));
  else if (!(w.options & kNotTheEnd) && raw_syscall(SYS_poll, as_long(&end), 1, 0) == 0) result = 1;  // lives
  raw_syscall(SYS_close, pidfd);
  if (result != 0) return result < 0 ? result : 0;
  w.result = -ECHILD;
  everywhere(&reap, &w);
  return w.result;
}

/// The kernel's answer.
long wait(Wait& w) {
  const long own = call(&cancellable_call, w, 0);
  return own == -ECHILD && w.pid > 0 && is_thread() ? wait_for_anothers(w) : own;
}

}  // namespace

int wait_for_child(pid_t pid, int* status, int options, rusage* usage) {
  Wait w{false, pid, options, 0, {}, {}, 0};
  const long result = wait(w);
  if (failed(result)) return errno = static_cast<int>(-result), -1;
  if (status && result > 0) *status = w.status;
  if (usage && result > 0) *usage = w.usage;
  return static_cast<int>(result);
}

int wait_for_id(idtype_t kind, id_t id, siginfo_t* info, int options) {
  if (kind != P_PID) {
    const long result = cancellable_call(SYS_waitid, kind, id, as_long(info), options, 0);
    return failed(result) ? (errno = static_cast<int>(-result), -1) : 0;
  }
  Wait w{true, static_cast<int>(id), options, 0, {}, {}, 0};
  const long result = wait(w);
  if (failed(result)) return errno = static_cast<int>(-result), -1;
  if (info) *info = w.info;
  return 0;
}

}  // namespace mortise::isolate
