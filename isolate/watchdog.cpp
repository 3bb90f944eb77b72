// watchdog.cpp: reads /proc/PID/syscall of every thread; "202 ADDRESS OPERATION ..." is a futex call.
#include "watchdog.hpp"

#include <cstring>

#include "end.hpp"
#include "kernel_thread.hpp"
#include "message.hpp"
#include "proc.hpp"
#include "raw.hpp"
#include "region.hpp"
#include "share.hpp"
#include "signal_pass.hpp"
#include "thread.hpp"

namespace mortise::isolate {
namespace {

constexpr int kLooksMin = 5;  // seconds on one address: longer than any hand-over takes

constinit KernelThread watchdog;

struct Sleep {
  unsigned long address = 0, operation = 0;
};

unsigned long read_hex(const char*& p) noexcept {
  if (p[0] == '0' && p[1] == 'x') p += 2;
  return read_number(p, 16);
}

/// What system call the process sleeps in; false when it runs, or sleeps in something else than a futex.
bool read_sleep(int pid, Sleep& out) noexcept {
  char text[256];
  if (!read_of_process(pid, "syscall", text, sizeof text) || std::strncmp(text, "202 ", 4) != 0) return false;
  const char* p = text + 4;
  out.address = read_hex(p);
  if (*p++ != ' ') return false;
  out.operation = read_hex(p);
  return true;
}

bool is_hopeless(const Sleep& s) noexcept {
  const unsigned long command = s.operation & static_cast<unsigned long>(FUTEX_CMD_MASK);
  return (s.operation & FUTEX_PRIVATE_FLAG) && (command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET) &&
         (in_region(s.address) || bool{find_shared_range(s.address)});
}

int watch(void*) {
  static unsigned long seen_at[kThreadsMax];
  static int looks[kThreadsMax];
  for (;;) {
    pass_signals_on();  // for a second
    for (int i = 0; i < thread_records(); ++i) {
      const Thread& t = threads[i];
      Sleep s;
      const int pid = t.in_use.load() && t.ended.load() == 0 ? t.pid.load() : 0;
      if (pid <= 0 || !read_sleep(pid, s) || !is_hopeless(s)) {
        looks[i] = 0;
        continue;
      }
      looks[i] = s.address == seen_at[i] ? looks[i] + 1 : 1;
      seen_at[i] = s.address;
      if (looks[i] < kLooksMin || setting("MORTISE_THREADS_ANYWAY")) continue;
      say("thread %d sleeps on a private futex at %lx, made by a system call inside the program: it cannot be woken "
          "from "
          "another address space; use --trap-futex",
          i, s.address);
      begin_ending();
      kill_other_threads();
      raw_syscall(SYS_exit_group, kExitUnsupported);
    }
  }
}

}  // namespace

void start_watchdog() noexcept { watchdog.start(&watch); }
void poke_watchdog() noexcept {
  if (const int id = watchdog.id()) raw_syscall(SYS_tgkill, leader->pid.load(), id, kPoke);
}
bool is_poke(const siginfo_t& info) noexcept {
  const bool is_untold = info.si_code == SI_USER && info.si_pid == 0;  // as many were queued as may be
  return info.si_signo == kPoke && (info.si_code == SI_TKILL || is_untold);
}

int watchdog_id() noexcept { return watchdog.id(); }
void forget_watchdog() noexcept { watchdog.forget(); }

}  // namespace mortise::isolate
