// orphans.cpp: begun and ended by the watchdog alone, so that neither overtakes the other.
#include "orphans.hpp"

#include <atomic>
#include <cerrno>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "leader_call.hpp"
#include "raw.hpp"
#include "thread.hpp"
#include "watchdog.hpp"

namespace mortise::isolate {
namespace {

constinit std::atomic<int> handing{0};  // threads
constinit std::atomic<bool> takes_in{false};  // and did not before: a program may by itself
constinit std::atomic<std::uint32_t> times{0};

bool has_children() noexcept {
  constexpr long kAnyEnd = WEXITED | WNOHANG | WNOWAIT;
  return raw_syscall(SYS_waitid, P_ALL, 0, 0, kAnyEnd) != -ECHILD;
}

long take_in(void*) noexcept {
  int already = 0;
  handing.fetch_add(1);
  raw_syscall(SYS_prctl, PR_GET_CHILD_SUBREAPER, as_long(&already));
  if (already) return 0;
  takes_in.store(true);
  return raw_syscall(SYS_prctl, PR_SET_CHILD_SUBREAPER, 1);
}

}  // namespace

void hand_children_on(Thread& t) noexcept {
  t.has_heirs = has_children();
  int nothing = 0;
  if (t.has_heirs) in_leader(&take_in, nothing);
}

void children_are_handed_on(Thread& t) noexcept {
  if (!t.has_heirs) return;
  times.fetch_add(1);
  if (handing.fetch_sub(1) == 1) poke_watchdog();
}

std::uint32_t times_handed_on() noexcept { return times.load(); }

bool are_handed_on_since(std::uint32_t before) noexcept {
  for (int i = 0; i < thread_records() && handing.load() > 0; ++i) {
    const Thread& t = threads[i];
    const int pid = t.pid.load();
    if (pid <= 0 || !t.has_heirs || t.ended.load() == 0) continue;
    for (std::uint32_t gone; gone = t.gone.load(), t.pid.load() == pid;) futex_wait(&t.gone, gone);
  }
  return times.load() != before;
}

void end_taking_in() noexcept {
  if (takes_in.load() && handing.load() == 0 && takes_in.exchange(false)) raw_syscall(SYS_prctl, PR_SET_CHILD_SUBREAPER, 0);
}

void forget_orphans() noexcept {
  handing.store(0);
  takes_in.store(false);
}

}  // namespace mortise::isolate
