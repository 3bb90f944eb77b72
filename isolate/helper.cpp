// helper.cpp: reaping threads, and making a crash or an exit of one the end of all.
//
//   how a thread's process ended       what it means             what the helper does
//   exit, `ended` set                  the thread was through    frees its record
//   exit, `ended` not set              exit(), _exit() in it     ends the program with that status
//   signal                             it crashed                one line, ends the program by the same signal
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

void handle_end(Thread& t, int status) noexcept {
  const int pid = t.pid.load();
  if (t.ended.load(std::memory_order_acquire) || ending()) {
    children_are_handed_on(t);
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

void reap(Thread& t, int pid) noexcept {
  int status = 0;
  if (raw_syscall(SYS_wait4, pid, as_long(&status), __WCLONE | WNOHANG) != pid) return;
  handle_end(t, status);
  progress.fetch_add(1);
  futex_wake(&progress, kEveryone);
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

void helper_notice() noexcept {
  notices.fetch_add(1);
  futex_wake(&notices, 1);
}

std::uint32_t helper_progress() noexcept { return progress.load(); }
void helper_wait_for_progress(std::uint32_t seen) noexcept { futex_wait(&progress, seen); }

}  // namespace mortise::isolate
