// helper.cpp: reaping threads, and making a crash or an exit of one the end of all.
//
//   how a thread's process ended       what it means             what the helper does
//   exit, `ended` set                  the thread was through    frees its record
//   exit, `ended` not set              exit(), _exit() in it     ends the program with that status
//   signal                             it crashed                one line, ends the program by the same signal
//
// A program that waits for all kinds of children (__WALL) reaps threads, too, and does that itself (wait.cpp).
#include "helper.hpp"

#include <cstring>
#include <sys/resource.h>
#include <sys/wait.h>

#include "end.hpp"
#include "kernel_thread.hpp"
#include "message.hpp"
#include "orphans.hpp"
#include "raw.hpp"
#include "region.hpp"
#include "signals.hpp"
#include "thread.hpp"
#include "watch.hpp"

namespace mortise::isolate {
namespace {

constinit std::atomic<std::uint32_t> notices{0};
constinit std::atomic<std::uint32_t> progress{0};
constinit KernelThread helper;

/// The thread's own core dump shows where it was; one of main, which only ends with it, would be written over it.
[[noreturn]] void end_by_signal(int signal, bool dumped) noexcept {
  const rlimit none{};
  if (dumped) raw_syscall(SYS_prlimit64, 0, RLIMIT_CORE, as_long(&none), 0);
  else let_into_dump();
  const KernelAction by_default{};
  set_action(signal, &by_default, nullptr);
  restore_signals(0);
  raw_syscall(SYS_tgkill, raw_getpid(), raw_gettid(), signal);
  raw_syscall(SYS_kill, raw_getpid(), SIGKILL);
  for (;;) raw_syscall(SYS_pause);
}

void kill_all_and_reap() noexcept {
  begin_ending();
  kill_other_threads();
  for (int i = 0; i < thread_records(); ++i) {
    const Thread& t = threads[i];
    const int pid = &t != leader && t.in_use.load() ? t.pid.load() : 0;
    if (pid <= 0) continue;
    raw_syscall(SYS_kill, pid, SIGKILL);  // it may have been made since
    raw_syscall(SYS_wait4, pid, 0, __WCLONE);
  }
}

void handle_end(Thread& t, int pid, bool was_through, int status) noexcept {
  if (was_through) {
    t.pid.store(0);
    let_go(t, kReaped);
    futex_wake(&t.gone, kEveryone);
    return;
  }
  if (WIFEXITED(status)) {
    kill_all_and_reap();
    write_watch_report();
    raw_syscall(SYS_exit_group, WEXITSTATUS(status));
  }
  const char* name = sigabbrev_np(WTERMSIG(status));
  say("thread %d (process %d) was ended by signal %d (SIG%s); the program ends with it", t.index, pid,
      WTERMSIG(status), name ? name : "?");
  kill_all_and_reap();
  write_watch_report();
  end_by_signal(WTERMSIG(status), WCOREDUMP(status));
}

/// Of two that know of the end, the helper and a program that has reaped the process itself, one sees to it. The record forgets the number
/// first: once it is reaped any process may get it, which whoever ends the program would kill.
void take_end(Thread& t, int pid, int status, bool is_reaped) noexcept {
  const bool was_through = t.ended.load(std::memory_order_acquire) || ending();
  if (was_through) children_are_handed_on(t);
  if (!t.pid.compare_exchange_strong(pid, -pid)) return;
  // Where the program was quicker the number may be a new child's, which lives.
  if (!is_reaped) raw_syscall(SYS_wait4, pid, 0, __WCLONE | WNOHANG);
  handle_end(t, pid, was_through, status);
  progress.fetch_add(1);
  futex_wake(&progress, kEveryone);
}

void reap(Thread& t, int pid) noexcept {
  siginfo_t info{};
  constexpr int kLook = WEXITED | __WCLONE | WNOHANG | WNOWAIT;
  const bool has_ended = !failed(raw_syscall(SYS_waitid, P_PID, pid, as_long(&info), kLook, 0)) && info.si_pid == pid;
  if (has_ended) take_end(t, pid, wait_status(info), false);
}

/// While somebody else's news are in front: children that the program traces, or has cloned by itself, are its own to wait for.
void reap_behind_others() noexcept {
  for (int i = 0; i < thread_records(); ++i)
    if (const int pid = threads[i].pid.load(); pid > 0 && &threads[i] != leader && threads[i].in_use.load()) reap(threads[i], pid);
  raw_syscall(SYS_poll, 0, 0, 10);
}

int helper_main(void*) {
  for (;;) {
    const std::uint32_t seen = notices.load();
    siginfo_t info{};
    if (failed(raw_syscall(SYS_waitid, P_ALL, 0, as_long(&info), WEXITED | __WCLONE | WNOWAIT, 0))) {
      futex_wait(&notices, seen);
      continue;
    }
    if (Thread* const t = find_thread_by_pid(info.si_pid)) reap(*t, info.si_pid);
    else reap_behind_others();
  }
}

}  // namespace

bool start_helper() noexcept { return helper.start(&helper_main); }
void forget_helper() noexcept { helper.forget(); }

int wait_status(const siginfo_t& info) noexcept {
  return info.si_code == CLD_EXITED ? W_EXITCODE(info.si_status, 0) : info.si_status | (info.si_code == CLD_DUMPED ? WCOREFLAG : 0);
}

void helper_forestalled(int pid, int status) noexcept {
  if (Thread* const t = find_thread_by_pid(pid)) take_end(*t, pid, status, true);
}

void helper_notice() noexcept {
  notices.fetch_add(1);
  futex_wake(&notices, 1);
}

std::uint32_t helper_progress() noexcept { return progress.load(); }
void helper_wait_for_progress(std::uint32_t seen) noexcept { futex_wait(&progress, seen); }

}  // namespace mortise::isolate
