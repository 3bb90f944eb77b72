// wait.cpp: for the kernel a child belongs to the thread that started it; programs wait for it in any.
//
//   the calling thread's child   the kernel's call, as ever
//   another thread's             ECHILD: a pidfd tells when it ends; then the thread that it belongs to reaps it in a rendezvous
//
// This goes for one child named by its number. Whoever waits for any gets the calling thread's.
#include "wait.hpp"

#include <cerrno>
#include <poll.h>
#include <pthread.h>

#include "actions.hpp"
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

long call(Wait& w, int also) noexcept {
  if (!w.by_id) return raw_syscall(SYS_wait4, w.pid, as_long(&w.status), w.options | also, as_long(&w.usage));
  w.info.si_pid = 0;
  return raw_syscall(SYS_waitid, P_PID, w.pid, as_long(&w.info), w.options | also, as_long(&w.usage));
}

/// In every address space: whoever's child it is.
void reap(void* argument) {
  Wait& w = *static_cast<Wait*>(argument);
  if (w.result != -ECHILD) return;
  Wait mine = w;  // the kernel writes to memory that this thread has
  mine.result = call(mine, WNOHANG);
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
  int type;
  do {
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
    result = raw_syscall(SYS_poll, as_long(&end), 1, -1);
    pthread_setcanceltype(type, nullptr);
  } while (result == -EINTR && calls_ended() == before);
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
  int type;
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
  const long own = call(w, 0);
  pthread_setcanceltype(type, nullptr);
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
    int type;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
    const long result = raw_syscall(SYS_waitid, kind, id, as_long(info), options, 0);
    pthread_setcanceltype(type, nullptr);
    return failed(result) ? (errno = static_cast<int>(-result), -1) : 0;
  }
  Wait w{true, static_cast<int>(id), options, 0, {}, {}, 0};
  const long result = wait(w);
  if (failed(result)) return errno = static_cast<int>(-result), -1;
  if (info) *info = w.info;
  return 0;
}

}  // namespace mortise::isolate
