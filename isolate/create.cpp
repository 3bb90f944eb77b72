// create.cpp: pthread_create by clone without CLONE_VM.
//
// Creator                                        New thread (a process of the leader's)
//   take record, stack, TLS block
//   block signals, rseq off
//   clone ------------------------------------->  adopt TLS; die with the leader; guard the stack; take processors
//   rseq on, restore signals                      restore signals, run start(argument)
//                                                 destructors; ended = 1, wake joiners; exit
//
// Shared with the creator: descriptors, directory and umask (CLONE_FILES, CLONE_FS), semaphore undo and I/O context.
// Not shared: the address space and, because the kernel ties them to it, signal handlers. Exit signal 0 keeps the
// threads out of the program's own waitpid().
#include "create.hpp"

#include <cerrno>
#include <sched.h>
#include <sys/prctl.h>

#include "actions.hpp"
#include "attributes.hpp"
#include "cancel.hpp"
#include "credentials.hpp"
#include "end.hpp"
#include "glibc.hpp"
#include "helper.hpp"
#include "keys.hpp"
#include "masks.hpp"
#include "raw.hpp"
#include "rendezvous.hpp"
#include "signals.hpp"
#include "stack.hpp"
#include "thread.hpp"
#include "tls.hpp"
#include "watch.hpp"
#include "watchdog.hpp"

// What pthread_cleanup_push() of C expands to; also the base that pthread_exit() and cancellation unwind to.
extern "C" {
int __sigsetjmp(struct __jmp_buf_tag*, int) noexcept(true);
void __pthread_register_cancel(__pthread_unwind_buf_t*);
void __pthread_unregister_cancel(__pthread_unwind_buf_t*);
}

namespace mortise::isolate {
namespace {

constexpr int kSharedWithCreator = CLONE_FILES | CLONE_FS | CLONE_SYSVSEM | CLONE_IO;
const void* const kC11 = reinterpret_cast<void*>(-1);  // what glibc's thrd_create passes for attributes

void call_start(Thread& t) {
  if (t.returns_int) {
    const int result = reinterpret_cast<int (*)(void*)>(reinterpret_cast<void*>(t.start))(t.argument);
    t.result = reinterpret_cast<void*>(static_cast<std::intptr_t>(result));
  } else {
    t.result = t.start(t.argument);
  }
}

/// Runs the thread's function and its destructors; comes back when it returns, calls pthread_exit or is cancelled, in a destructor too.
void run_to_end(Thread& t) {
  __pthread_unwind_buf_t base{};
  if (__sigsetjmp(reinterpret_cast<struct __jmp_buf_tag*>(base.__cancel_jmp_buf), 0) == 0) {
    __pthread_register_cancel(&base);
    restore_signals(t.mask);  // no earlier: a handler may leave by pthread_exit
    call_start(t);
  } else if (!t.exits_early) {
    t.result = PTHREAD_CANCELED;
  }
  glibc.call_tls_destructors();
  run_key_destructors();
  end_cancellation(t);
  __pthread_unregister_cancel(&base);
}

void become(Thread& t) noexcept {
  static constexpr stack_t kNone{nullptr, SS_DISABLE, 0};
  raw_syscall(SYS_sigaltstack, as_long(&kNone), 0);  // first: its creator's, which a copy of the process has, holds one fault at a time
  self = &t;
  adopt_tls(t);
  raw_syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
  if (raw_syscall(SYS_getppid) != leader->pid.load()) raw_syscall(SYS_exit_group, 1);  // it died before the line above
  let_tracer_trace();
  guard_stack(t);
  leave_terminal_signals_to_leader();
}

int thread_main(void* record) {
  Thread& t = *static_cast<Thread*>(record);
  become(t);
  const bool is_wanted = take_attributes(t);
  catch_up_rendezvous(t);
  if (is_wanted) run_to_end(t);
  finish_thread(t);
}

int start_process(Thread& t) noexcept {
  // The kernel writes the id before the thread can run: it may have ended and been reaped when clone returns here.
  int flags = kSharedWithCreator | CLONE_SETTLS | CLONE_PARENT_SETTID;
  if (!is_leader()) flags |= CLONE_PARENT;  // every thread is a child of the leader, whoever made it
  address_spaces.fetch_add(1);
  rseq_off();
  const int pid = clone(&thread_main, stack_top(t), flags, &t, &t.pid, t.tcb, nullptr);
  const int error = errno;
  rseq_on();
  if (pid < 0) return error;
  tid_field(t.tcb) = pid;  // libc's calls that name a thread read it: they may come before the thread runs
  return 0;
}

/// From here on the record is the thread's; 0, or why it will not run.
int hand_over(Thread& t) noexcept {
  const int refused = await_attributes(t);
  if (refused && !t.detached.load()) let_go(t, kReleased);  // nobody will join it
  let_go(t, kMade);
  helper_notice();
  return refused;
}

/// The runtime's own kernel threads, started by the first create: the program has one thread then, so nothing races, and
/// they live in the leader's address space, which lives longest.
bool start_companions() noexcept {
  if (live_threads.load() > 1) return true;
  if (!start_helper()) return false;
  start_watchdog();
  start_watch();
  return true;
}

}  // namespace

int create_thread(pthread_t* out, const pthread_attr_t* attributes, void* (*start)(void*), void* argument) noexcept {
  Thread* taken = take_thread();
  if (!taken) return EAGAIN;
  Thread& t = *taken;
  t.returns_int = attributes == kC11;
  if (t.returns_int) attributes = nullptr;
  t.start = start;
  t.argument = argument;
  t.result = nullptr;
  t.exits_early = t.has_heirs = false;
  t.pid.store(0);
  t.ended.store(0);
  t.finished.store(0);
  t.announced.store(0);
  t.awaits.store(0);
  t.is_served.store(false);
  t.passed.store(0);
  for (LockCall& call : t.lock_calls) call.key.store(0);
  const Attributes wanted(attributes);
  // Before signals are blocked: memory may have to be asked for in a rendezvous, which needs this thread to answer
  // others.
  int error = start_companions() ? make_stack(t, wanted.get()) : EAGAIN, refused = 0;
  if (error == 0 && !make_tls(t)) error = EAGAIN;
  if (error == 0) {
    *out = handle_of(t);
    live_threads.fetch_add(1);
    const std::uint64_t own_mask = block_signals();
    t.mask = blockable(own_mask);  // libc blocks all by itself around some threads of its own
    read_attributes(t, wanted.get());
    t.applied.store(self->applied.load());
    t.creators = self->stack;
    error = start_process(t);
    if (error == 0) refused = hand_over(t);
    restore_signals(own_mask);
    if (error != 0) live_threads.fetch_sub(1);
  }
  if (error != 0) t.in_use.store(false);
  return error == ENOMEM ? EAGAIN : error ? error : refused;
}

}  // namespace mortise::isolate
