// signals.cpp: signal masks and handlers, per address space.
#include "signals.hpp"

#include <cerrno>
#include <csignal>

#include "raw.hpp"
#include "signal_marks.hpp"

extern "C" void mortise_isolate_restorer();
__asm__(
    ".text\n"
    ".globl mortise_isolate_restorer\n"
    ".hidden mortise_isolate_restorer\n"
    ".type mortise_isolate_restorer, @function\n"
    "nop\n"  // unwinders look up the byte before a return address
    "mortise_isolate_restorer:\n"
    "  movq $15, %rax\n"
    "  syscall\n"
    ".size mortise_isolate_restorer, .-mortise_isolate_restorer\n");

namespace mortise::isolate {
namespace {
constexpr unsigned long kRestorerGiven = 0x04000000;  // SA_RESTORER
constexpr long kMaskBytes = 8;

__thread bool none_come = false;  // each thread's own, as its mask is
}  // namespace

std::uint64_t block_signals() noexcept {
  const std::uint64_t all = ~0ull;
  std::uint64_t before = 0;
  raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, as_long(&all), as_long(&before), kMaskBytes);
  return before;
}

std::uint64_t block_program_signals() noexcept {
  std::uint64_t before = 0;
  raw_syscall(SYS_rt_sigprocmask, SIG_BLOCK, as_long(&kProgramSignals), as_long(&before), kMaskBytes);
  return before;
}

void restore_signals(std::uint64_t mask) noexcept {
  raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, as_long(&mask), 0, kMaskBytes);
}

NoSignals::NoSignals() noexcept : is_outer_(!none_come) {
  if (is_outer_) mask_ = block_signals(), none_come = true;
}
NoSignals::~NoSignals() {
  if (is_outer_) none_come = false, restore_signals(mask_);
}

long set_action(int signal, const KernelAction* action, KernelAction* old) noexcept {
  KernelAction given{};
  if (action) {
    given = *action;
    given.flags |= kRestorerGiven;
    given.restorer = reinterpret_cast<void*>(&mortise_isolate_restorer);
  }
  return raw_syscall(SYS_rt_sigaction, signal, action ? as_long(&given) : 0, as_long(old), kMaskBytes);
}

void send_own_signal(int pid, int signal) noexcept {
  if (raw_syscall(SYS_tgkill, pid, pid, signal) == -EAGAIN) raw_syscall(SYS_kill, pid, signal);
}

bool comes_from_terminal(int signal) noexcept {
  return signal == SIGINT || signal == SIGQUIT || signal == SIGHUP || signal == SIGTERM || signal == SIGTSTP || signal == SIGCONT ||
         signal == SIGWINCH;
}

bool is_sent_to_group(const siginfo_t& info) noexcept {
  if (is_passed_on(info)) return false;
  // The others are for the process's own sake: timers, and a pipe that nobody reads.
  return info.si_code == SI_KERNEL ? comes_from_terminal(info.si_signo) : info.si_code == SI_USER && info.si_signo != SIGPIPE;
}

}  // namespace mortise::isolate
