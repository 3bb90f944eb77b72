// cancel.cpp: deferred cancellation.
//
// glibc keeps the state of cancellation in bits of each descriptor, and its own blocking calls look at them: they mark
// themselves "may be cancelled at once" around the system call. So it is enough to set the target's bits and to
// interrupt it; unwinding, clean-up handlers and pthread_testcancel are glibc's own. The runtime's own sleeps close
// the gap between looking at the bits and falling asleep by address: if the signal finds the thread there, it is sent
// past the sleep.
#include "cancel.hpp"

#include <cerrno>
#include <csignal>
#include <dlfcn.h>
#include <ucontext.h>

#include "end.hpp"
#include "glibc.hpp"
#include "raw.hpp"
#include "signals.hpp"
#include "thread.hpp"
#include "tls.hpp"

extern "C" {
long mortise_isolate_futex_cancellable(const void* word, long op, long expected, const void* deadline,
                                       const void* bits);
extern const char mortise_isolate_cancel_from[], mortise_isolate_cancel_to[], mortise_isolate_cancelled[];
}
__asm__(
    ".text\n"
    ".hidden mortise_isolate_futex_cancellable, mortise_isolate_cancel_from, mortise_isolate_cancel_to\n"
    ".hidden mortise_isolate_cancelled\n"
    ".globl mortise_isolate_futex_cancellable, mortise_isolate_cancel_from, mortise_isolate_cancel_to\n"
    ".globl mortise_isolate_cancelled\n"
    ".type mortise_isolate_futex_cancellable, @function\n"
    "mortise_isolate_futex_cancellable:\n"
    ".cfi_startproc\n"
    "  pushq %rbx\n"
    ".cfi_adjust_cfa_offset 8\n"
    ".cfi_rel_offset rbx, 0\n"
    "  movq %r8, %rbx\n"
    "  movq %rcx, %r10\n"
    "  xorl %r8d, %r8d\n"
    "  movl $-1, %r9d\n"
    "mortise_isolate_cancel_from:\n"
    "  movl (%rbx), %ecx\n"
    "  andl $25, %ecx\n"  // cancelled (8), not disabled (1), and not ending already (16)?
    "  cmpl $8, %ecx\n"
    "  je mortise_isolate_cancelled\n"
    "  movl $202, %eax\n"
    "  syscall\n"
    "mortise_isolate_cancel_to:\n"
    "  popq %rbx\n"
    ".cfi_remember_state\n"
    ".cfi_adjust_cfa_offset -8\n"
    ".cfi_restore rbx\n"
    "  ret\n"
    "mortise_isolate_cancelled:\n"
    ".cfi_restore_state\n"
    "  movq $-125, %rax\n"  // -ECANCELED
    "  popq %rbx\n"
    ".cfi_adjust_cfa_offset -8\n"
    ".cfi_restore rbx\n"
    "  ret\n"
    ".cfi_endproc\n"
    ".size mortise_isolate_futex_cancellable, .-mortise_isolate_futex_cancellable\n");

namespace mortise::isolate {
namespace {

constexpr int kSignal = 32;  // glibc's SIGCANCEL: programs can neither block nor handle it
enum Bits { kDisabled = 1, kAtOnce = 2, kCancelling = 4, kCancelled = 8, kExiting = 16 };

void (*original_exit)(void*) = nullptr;

bool act_at_once(int bits) noexcept {
  return (bits & (kDisabled | kAtOnce | kCancelled | kExiting)) == (kAtOnce | kCancelled);
}

bool is_in_wait(const ucontext_t& interrupted) noexcept {
  const auto at = reinterpret_cast<const char*>(interrupted.uc_mcontext.gregs[REG_RIP]);
  return at >= mortise_isolate_cancel_from && at < mortise_isolate_cancel_to;
}

void send_past_wait(ucontext_t& interrupted, int bits) noexcept {
  if ((bits & (kDisabled | kCancelled | kExiting)) == kCancelled && is_in_wait(interrupted))
    interrupted.uc_mcontext.gregs[REG_RIP] = reinterpret_cast<greg_t>(mortise_isolate_cancelled);
}

void on_signal(int, siginfo_t*, void* context) {
  if (!self) return;
  const int bits = cancel_field(self->tcb).load();
  if (act_at_once(bits)) original_exit(PTHREAD_CANCELED);  // unwinds through this frame, as glibc's own handler does
  send_past_wait(*static_cast<ucontext_t*>(context), bits);
}

}  // namespace

int cancel_thread(pthread_t handle) noexcept {
  Thread* t = find_thread(handle);
  if (!t) return ESRCH;
  const int before = cancel_field(t->tcb).fetch_or(kCancelling | kCancelled);
  if (before & (kCancelled | kExiting)) return 0;
  if (t == leader) see_to_cancelled_main();
  if (t == self) {
    if (act_at_once(before | kCancelled)) original_exit(PTHREAD_CANCELED);
    return 0;
  }
  const int pid = before & kDisabled || t->ended.load() ? 0 : t->pid.load();
  if (pid > 0) send_own_signal(pid, kSignal);
  return 0;
}

void end_cancelled_wait(ucontext_t& interrupted) noexcept {
  if (!self || !is_in_wait(interrupted)) return;
  const std::uint64_t own = 1ull << (kSignal - 1);  // blocked until the handler has returned: the signal finds the thread in its wait then
  raw_syscall(SYS_rt_sigprocmask, SIG_BLOCK, as_long(&own), 0, sizeof own);
  send_past_wait(interrupted, cancel_field(self->tcb).load());
}

bool is_exiting(const Thread& t) noexcept { return cancel_field(t.tcb).load() & kExiting; }

void end_cancellation(Thread& t) noexcept { cancel_field(t.tcb).fetch_or(kExiting); }

void install_cancellation() noexcept {
  original_exit = reinterpret_cast<void (*)(void*)>(dlsym(RTLD_NEXT, "pthread_exit"));
  KernelAction action{};
  action.handler = reinterpret_cast<void*>(&on_signal);
  action.flags = SA_SIGINFO | SA_NODEFER | SA_RESTART;  // calls that are no cancellation points go on
  set_action(kSignal, &action, nullptr);
}

long cancellable_call(long number, long a, long b, long c, long d, long e, long f) {
  int type;
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
  const long result = raw_syscall(number, a, b, c, d, e, f);
  pthread_setcanceltype(type, nullptr);
  return result;
}

long cancellable_wait(const void* word, unsigned expected, const timespec* deadline, clockid_t clock) noexcept {
  if (!self || is_over(deadline)) return futex_wait(word, expected, deadline, clock);
  const long op = FUTEX_WAIT_BITSET | (clock == CLOCK_REALTIME ? FUTEX_CLOCK_REALTIME : 0);
  const auto* bits = static_cast<const std::byte*>(self->tcb);
  return mortise_isolate_futex_cancellable(word, op, static_cast<long>(expected), deadline, bits + glibc.cancel);
}

}  // namespace mortise::isolate
