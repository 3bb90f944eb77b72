// wait.cpp: for the kernel a child belongs to the thread that started it; programs wait for it in any.
//
//   the calling thread's child   the kernel's call, as ever
//   another thread's             a pidfd tells when it ends (children.hpp); then the thread that it belongs to reaps it in a rendezvous
//   any child                    those of all threads are looked at, and again every half a second while none ends: there may be new ones
#include "wait.hpp"

#include <cerrno>
#include <cstring>
#include <poll.h>
#include <pthread.h>

#include "cancel.hpp"
#include "children.hpp"
#include "helper.hpp"
#include "orphans.hpp"
#include "parents.hpp"
#include "proc.hpp"
#include "raw.hpp"
#include "rendezvous.hpp"
#include "thread.hpp"

namespace mortise::isolate {
namespace {

/// One wait call, either of the two.
struct Wait {
  bool by_id;
  idtype_t kind;  // of waitid
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
  return make(SYS_waitid, w.kind, w.pid, info, w.options | also, usage, 0);
}

/// Whether the call has told of a child.
bool has_told(const Wait& w, long result) noexcept { return w.by_id ? result == 0 && w.info.si_pid != 0 : result > 0; }

/// In every address space: whoever's child it is.
void reap(void* argument) {
  Wait& w = *static_cast<Wait*>(argument);
  if (w.result != -ECHILD) return;
  Wait mine = w;  // the kernel writes to memory that this thread has
  mine.result = call(&at_once, mine, WNOHANG);
  if (mine.result != -ECHILD) w = mine;
}

/// What the thread that it belongs to is told of this child; -ECHILD: it is gone.
long reap_anothers(Wait& w, int pid) noexcept {
  Wait one = w;
  one.kind = P_PID;
  one.pid = pid;
  one.result = -ECHILD;
  everywhere(&reap, &one);
  w.status = one.status;
  w.info = one.info;
  w.usage = one.usage;
  return one.result;
}

bool is_anothers_child(int pid) noexcept {
  const int parent = kernel_parent_of(pid);
  const Thread* const t = parent > 0 ? find_thread_by_pid(parent) : nullptr;
  return t && t != self;
}

long wait_for_anothers(Wait& w) {
  constexpr int kNotTheEnd = WUNTRACED | WCONTINUED;  // of waitid: WSTOPPED and WCONTINUED; a pidfd does not tell
  if ((w.by_id && !(w.options & WEXITED)) || !is_anothers_child(w.pid)) return -ECHILD;
  const bool only_looks = w.options & WNOHANG;
  Ends end;
  end.add(w.pid);
  const int ended = end.wait(only_looks ? 0 : -1);
  end.close();
  if (ended < 0) return ended;
  if (ended == 0 && !(w.options & kNotTheEnd)) return 0;  // it lives
  return reap_anothers(w, w.pid);
}

bool names_one(const Wait& w) noexcept { return w.by_id ? w.kind == P_PID : w.pid > 0; }

/// Whether it is for any child that ends; of which process group, if not 0.
bool is_for_any(const Wait& w, int& group) noexcept {
  constexpr int kNotForAll = static_cast<int>(__WCLONE) | __WALL | __WNOTHREAD;
  if (names_one(w) || (w.options & kNotForAll) || (w.by_id && !(w.options & WEXITED))) return false;
  const bool is_any = w.by_id ? w.kind == P_ALL : w.pid == -1;
  if (!is_any && w.by_id && w.kind != P_PGID) return false;
  group = is_any ? 0 : w.by_id ? w.pid : -w.pid;
  if (!is_any && group == 0) group = static_cast<int>(raw_syscall(SYS_getpgid, 0));
  return true;
}

/// "Pid: NUMBER" is written of a descriptor of a process; 0 where it is none.
int pid_of(int pidfd) noexcept {
  char text[512];
  const char* at = pidfd >= 0 && read_of_descriptor(pidfd, text, sizeof text) ? std::strstr(text, "\nPid:\t") : nullptr;
  return at ? static_cast<int>(read_number(at += std::strlen("\nPid:\t"), 10)) : 0;
}

void pause_for(int milliseconds) noexcept { raw_syscall(SYS_poll, 0, 0, milliseconds); }

long wait_for_any(Wait& w, int group) {
  constexpr int kFirstMs = 8, kMostMs = 512;
  pthread_testcancel();
  bool only_looks = w.options & WNOHANG;
  for (int sleep = kFirstMs, interrupted = 0;; sleep = sleep < kMostMs ? sleep * 2 : kMostMs) {
    const std::uint32_t before = times_handed_on();
    const long own = call(&at_once, w, WNOHANG);
    if (has_told(w, own) || (failed(own) && own != -ECHILD)) return own;
    Ends ends;
    ends.add_children(group);
    if (!ends && own == -ECHILD && are_handed_on_since(before)) continue;
    if (!ends && own == -ECHILD) return own;
    const int ended = ends.wait(only_looks ? 0 : sleep);
    ends.close();
    if (ended > 0) {
      if (!is_anothers_child(ended)) continue;
      if (const long result = reap_anothers(w, ended); has_told(w, result)) return result;
      pause_for(1);  // another thread was quicker
      continue;
    }
    if (only_looks) return interrupted;
    if (ended == -EINTR) interrupted = -EINTR, only_looks = true;  // a child that has just ended comes first
  }
}

/// A thread's process, too, may have been reaped (by __WALL): the helper will not hear of it.
void tell_helper(const Wait& w, long result) noexcept {
  if (!has_told(w, result) || !is_thread() || !is_leader()) return;
  if (w.by_id && ((w.options & WNOWAIT) || w.info.si_code == CLD_STOPPED || w.info.si_code == CLD_TRAPPED || w.info.si_code == CLD_CONTINUED)) return;
  const int status = w.by_id ? wait_status(w.info) : w.status;
  if (WIFEXITED(status) || WIFSIGNALED(status)) helper_forestalled(w.by_id ? w.info.si_pid : static_cast<int>(result), status);
}

/// The kernel's answer.
long wait(Wait& w) {
  int group = 0;
  if (is_thread() && live_threads.load() > 1 && is_for_any(w, group)) return wait_for_any(w, group);
  for (;;) {
    const std::uint32_t before = times_handed_on();
    const long own = call(&cancellable_call, w, 0);
    if (own != -ECHILD || !is_thread()) return own;
    if (w.by_id && w.kind == P_PIDFD) w.kind = P_PID, w.pid = pid_of(w.pid);
    const long anothers = names_one(w) && w.pid > 0 ? wait_for_anothers(w) : own;
    if (anothers != -ECHILD || !are_handed_on_since(before)) return anothers;  // or it has come to be another's, or one's own
  }
}

}  // namespace

int wait_for_child(pid_t pid, int* status, int options, rusage* usage) {
  Wait w{false, P_PID, pid, options, 0, {}, {}, 0};
  const long result = wait(w);
  tell_helper(w, result);
  if (failed(result)) return errno = static_cast<int>(-result), -1;
  if (status && result > 0) *status = w.status;
  if (usage && result > 0) *usage = w.usage;
  return static_cast<int>(result);
}

int wait_for_id(idtype_t kind, id_t id, siginfo_t* info, int options) {
  Wait w{true, kind, static_cast<int>(id), options, 0, {}, {}, 0};
  const long result = wait(w);
  tell_helper(w, result);
  if (failed(result)) return errno = static_cast<int>(-result), -1;
  if (info) *info = w.info;
  return 0;
}

}  // namespace mortise::isolate
