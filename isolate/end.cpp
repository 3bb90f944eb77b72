// end.cpp: ends of threads and of the program.
#include "end.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <dlfcn.h>

#include "actions.hpp"
#include "cancel.hpp"
#include "helper.hpp"
#include "orphans.hpp"
#include "raw.hpp"
#include "signal_marks.hpp"
#include "signal_masks.hpp"
#include "signal_wait.hpp"
#include "signals.hpp"
#include "stack.hpp"
#include "thread.hpp"
#include "tls.hpp"
#include "watch.hpp"

namespace mortise::isolate {
namespace {

constinit std::atomic<bool> is_ending{false};
constinit std::atomic<int> last_status{0};  // of the thread that ended last

void finish(Thread& t) noexcept {
  t.finished.store(1, std::memory_order_release);
  futex_wake(&t.finished, kEveryone);
}

/// After pthread_exit in main: the process stays until the last thread has ended.
void wait_for_other_threads() {
  const std::uint64_t mask = block_program_signals();  // what comes is for others
  finish(*leader);
  live_threads.fetch_sub(1);
  for (std::uint32_t left; (left = live_threads.load()) != 0;) futex_wait(&live_threads, left);
  restore_signals(mask);
}

/// glibc, which knows of no other thread, would end the program.
void wait_where_main_was_cancelled() {
  if (!is_thread() || !is_leader() || self->exits_early || !is_exiting(*self)) return;
  self->result = PTHREAD_CANCELED;
  wait_for_other_threads();
}

[[noreturn]] void leave(Thread& t, int status) noexcept {
  block_program_signals();  // once it has ended nobody waits for it: what a handler needs may be gone
  if (watching()) {
    block_signals();
    end_tracking();
  }
  hand_children_on(t);
  give_signals_back();
  last_status.store(status);
  t.held_robust = *static_cast<void**>(robust_head_of(t.tcb)) != robust_head_of(t.tcb);
  if (!t.held_robust) drop_deep_stack(t);  // they may lie there
  live_threads.fetch_sub(1);
  futex_wake(&live_threads, kEveryone);
  t.ended.store(1, std::memory_order_release);
  finish(t);
  for (;;) raw_syscall(SYS_exit_group, 0);
}

/// Whether the helper has still to reap it; what the program reaped itself (by __WALL), it never will. For one that has given itself another
/// user's rights, and may not be ended, nobody waits.
bool is_left(const Thread& t) noexcept {
  if (&t == leader || !t.in_use.load()) return false;
  const int pid = t.pid.load();
  return pid < 0 || (pid > 0 && !failed(raw_syscall(SYS_kill, pid, 0)));
}

/// Whether `signal` ends the program where a thread lets it in.
bool ends_by_default(int signal) noexcept {
  if (signal < 1 || signal > 64) return false;
  KernelAction now{};
  if (failed(set_action(signal, nullptr, &now))) return false;
  if (is_handled_by_us(now)) now = action_of(signal);
  if (now.handler != reinterpret_cast<void*>(SIG_DFL)) return false;
  for (const int harmless : {SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH})
    if (signal == harmless) return false;
  return true;
}

bool is_let_in(int signal) noexcept {
  std::uint64_t blocked = 0;
  raw_syscall(SYS_rt_sigprocmask, SIG_BLOCK, 0, as_long(&blocked), sizeof blocked);
  return !(blocked & bit_of(signal));
}

/// Whether `signal`, sent to the calling thread, ends the program. The first process of a container is spared.
bool is_fatal(int signal) noexcept { return raw_getpid() != 1 && ends_by_default(signal) && is_let_in(signal); }

}  // namespace

bool ending() noexcept { return is_ending.load(std::memory_order_acquire); }
void begin_ending() noexcept { is_ending.store(true, std::memory_order_release); }
void reset_ending() noexcept { is_ending.store(false, std::memory_order_relaxed); }

void kill_other_threads() noexcept {
  for (int i = 0; i < thread_records(); ++i) {
    const Thread& t = threads[i];
    const int pid = &t != leader && t.in_use.load() ? t.pid.load() : 0;  // one look: by a second it may be 0, which is the whole group
    if (pid > 0) raw_syscall(SYS_kill, pid, SIGKILL);
  }
}

void stop_other_threads() noexcept {
  begin_ending();
  for (;;) {
    const std::uint32_t seen = helper_progress();
    kill_other_threads();
    bool left = false;
    for (const Thread& t : threads) left |= is_left(t);
    if (!left) return;
    helper_wait_for_progress(seen);
  }
}

void wait_for_ended_threads() noexcept {
  for (;;) {
    const std::uint32_t seen = helper_progress();
    bool left = false;
    for (const Thread& t : threads) left |= t.ended.load() && is_left(t);
    if (!left) return;
    helper_wait_for_progress(seen);
  }
}

void stop_other_threads_before(int signal) noexcept {
  if (is_thread() && is_leader() && is_fatal(signal)) stop_other_threads();
}

bool would_end(const Thread& other, int signal) noexcept {
  if (&other == self || !is_thread() || other.pid.load() == 1 || !ends_by_default(signal)) return false;
  static constexpr timespec kMoment{0, 100'000};
  std::uint64_t let_in = 0;
  for (int i = 0; i < 1000 && !(let_in & bit_of(32)); ++i) {  // which only the runtime blocks, for the length of a call
    if (i > 0) raw_syscall(SYS_nanosleep, as_long(&kMoment), 0);
    let_in = (&other == leader ? let_in_by_leader() : let_in_by(other)).any;
  }
  return let_in & ~other.announced.load() & bit_of(signal);  // what it waits for in sigwait the kernel tells as let in
}

bool would_end_program(int signal) noexcept {
  if (is_leader() || leader->pid.load() == 1 || !ends_by_default(signal)) return false;
  // Where main does not let it in, it may be passed on to this thread.
  return (is_let_in(signal) && !(leader->announced.load() & bit_of(signal))) || would_end(*leader, signal);
}

void await_end_by(int signal, const Thread& to) noexcept {
  const std::uint64_t others = kProgramSignals & ~bit_of(signal);
  std::uint64_t mask = 0;
  raw_syscall(SYS_rt_sigprocmask, SIG_BLOCK, as_long(&others), as_long(&mask), sizeof mask);
  static constexpr timespec kMoment{0, 10'000'000};
  for (int i = 0; (i < 100 || signal == SIGKILL) && !to.ended.load(); ++i) {
    if (!is_leader() && raw_syscall(SYS_getppid) != leader->pid.load()) raw_syscall(SYS_exit_group, 1);
    raw_syscall(SYS_nanosleep, as_long(&kMoment), 0);
  }
  restore_signals(mask);
}

void end_program(int status) noexcept {
  if (self && is_leader() && raw_getpid() == self->pid.load()) {
    stop_other_threads();
    write_watch_report();
  }
  raw_syscall(SYS_exit_group, status);  // in another thread's process: the helper sees an end without `ended`
  __builtin_trap();
}

void end_process(int status) noexcept { end_program(status); }

void finish_thread(Thread& t) noexcept {
  if (is_leader()) {  // a forked child whose only thread was not main
    wait_for_other_threads();
    std::exit(0);
  }
  leave(t, 0);
}

void exit_kernel_thread(int status) noexcept {
  if (is_thread() && !is_leader()) leave(*self, status);
  if (is_thread() && live_threads.load() > 1) {
    wait_for_other_threads();
    status = last_status.load();
  }
  for (;;) raw_syscall(SYS_exit_group, status);
}

void see_to_cancelled_main() noexcept {
  if (!leader->start) std::atexit(&wait_where_main_was_cancelled);
}

void exit_thread(void* result) {
  using Exit = void (*)(void*);
  const auto original = reinterpret_cast<Exit>(dlsym(RTLD_NEXT, "pthread_exit"));
  if (self) {
    self->result = result;
    self->exits_early = true;
    // Registered last, so run first: before any handler of the program.
    if (is_leader() && !self->start) std::atexit(&wait_for_other_threads);
  }
  original(result);
  __builtin_unreachable();
}

}  // namespace mortise::isolate
