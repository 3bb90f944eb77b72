// orphans.cpp: begun and ended under a lock, so that neither overtakes the other, nor the program's own wish.
#include "orphans.hpp"

#include <atomic>
#include <cerrno>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "leader_call.hpp"
#include "quiet.hpp"
#include "raw.hpp"
#include "thread.hpp"
#include "watchdog.hpp"

namespace mortise::isolate {
namespace {

constinit Lock lock;  // of Brief: main asks by itself, the watchdog for all others
constinit std::atomic<int> handing{0};  // threads
constinit std::atomic<bool> takes_in{false};  // and would not without them: a program may by itself
constinit std::atomic<std::uint32_t> times{0};

bool has_children() noexcept {
  constexpr long kAnyEnd = WEXITED | WNOHANG | WNOWAIT;
  return raw_syscall(SYS_waitid, P_ALL, 0, 0, kAnyEnd) != -ECHILD;
}

long take_in(void*) noexcept {
  int already = 0;
  Brief held(lock);
  handing.fetch_add(1);
  raw_syscall(SYS_prctl, PR_GET_CHILD_SUBREAPER, as_long(&already));
  if (already) return 0;
  takes_in.store(true);
  return raw_syscall(SYS_prctl, PR_SET_CHILD_SUBREAPER, 1);
}

struct Wish {
  bool is_question;
  int takes_in;
};

long do_as_wished(void* argument) noexcept {
  Wish& w = *static_cast<Wish*>(argument);
  Brief held(lock);
  if (w.is_question) {
    const long result = raw_syscall(SYS_prctl, PR_GET_CHILD_SUBREAPER, as_long(&w.takes_in));
    return w.takes_in &= !takes_in.load(), result;
  }
  takes_in.store(!w.takes_in && handing.load() > 0);
  return raw_syscall(SYS_prctl, PR_SET_CHILD_SUBREAPER, w.takes_in || takes_in.load());
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
  if (shared(t.has_heirs).exchange(false) && handing.fetch_sub(1) == 1) poke_watchdog();
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
  if (!takes_in.load() || handing.load() > 0) return;
  Brief held(lock);
  if (takes_in.exchange(false)) raw_syscall(SYS_prctl, PR_SET_CHILD_SUBREAPER, 0);
}

long wish_to_take_in(bool wanted) noexcept {
  Wish w{false, wanted};
  return in_leader(&do_as_wished, w);
}

long ask_to_take_in(int* wanted) noexcept {
  const long result = raw_syscall(SYS_prctl, PR_GET_CHILD_SUBREAPER, as_long(wanted));  // the kernel says whether that is memory
  if (failed(result)) return result;
  Wish w{true, 0};
  in_leader(&do_as_wished, w);
  return *wanted = w.takes_in, result;
}

void forget_orphans() noexcept {
  lock.reset();
  handing.store(0);
  takes_in.store(false);
}

}  // namespace mortise::isolate
