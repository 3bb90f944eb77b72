// signal_wait.cpp: who waits for which signal, and passing them on.
//
//   somebody        kill(pid of main) ----> main's process: blocked by its threads, so pending
//   watchdog        sigtimedwait(what threads await, and the poke) ----> sigqueue to the thread that awaits it
//   thread          awaits = set; poke the watchdog; sigtimedwait
//
// A signal to the whole process group (a terminal's) reaches every thread's process by itself, and main's copy is
// passed on besides: a copy that did not come by way of main is dropped.
#include "signal_wait.hpp"

#include <cerrno>
#include <cstring>

#include "actions.hpp"
#include "cancel.hpp"
#include "leader_call.hpp"
#include "orphans.hpp"
#include "raw.hpp"
#include "signal_masks.hpp"
#include "signals.hpp"
#include "thread.hpp"
#include "timers.hpp"
#include "watchdog.hpp"

namespace mortise::isolate {
namespace {

constexpr long kMaskBytes = 8;
constexpr std::int64_t kSecond = 1'000'000'000, kForEver = INT64_MAX / kSecond / 2;

constexpr std::uint64_t bit(int signal) noexcept { return 1ull << (signal - 1); }

/// The kernel's sigtimedwait until `deadline` (a negative one: for ever).
template <class Make>
long take_signal(Make make, std::uint64_t set, siginfo_t* info, std::int64_t deadline) {
  std::int64_t left = deadline < 0 ? 0 : deadline - now_ns();
  if (left < 0) left = 0;
  const timespec timeout{left / kSecond, left % kSecond};
  return make(SYS_rt_sigtimedwait, as_long(&set), as_long(info), deadline < 0 ? 0 : as_long(&timeout), kMaskBytes, 0, 0);
}

bool awaits_it(const Thread& t, int signal) noexcept {
  return &t != leader && t.in_use.load() && t.pid.load() > 0 && t.ended.load() == 0 && (t.awaits.load() & bit(signal));
}

bool send(const Thread& t, siginfo_t& info) noexcept {
  const int pid = t.pid.load();
  return !failed(raw_syscall(SYS_rt_tgsigqueueinfo, pid, pid, info.si_signo, as_long(&info)));
}

/// False: nobody would have it any more, and it waits where it was sent to.
bool pass_on(siginfo_t& info) noexcept {
  mark_as_passed_on(info);
  for (const Thread& t : threads)
    if (awaits_it(t, info.si_signo) && send(t, info)) return true;
  for (const Thread& t : threads)
    if (lets_in(t, info.si_signo) && send(t, info)) return true;
  raw_syscall(SYS_rt_sigqueueinfo, leader->pid.load(), info.si_signo, as_long(&info));
  return false;
}

}  // namespace

// kill() may not be imitated in another's name, so such a signal travels as one of sigqueue() with a value of ours.
void mark_as_passed_on(siginfo_t& info) noexcept {
  if (info.si_code < 0 && info.si_code != SI_TKILL) return;
  info.si_code = SI_QUEUE;
  info.si_value.sival_ptr = threads;
}

void unmark_passed_on(siginfo_t& info) noexcept {
  if (info.si_code != SI_QUEUE || info.si_value.sival_ptr != threads) return;
  info.si_code = SI_USER;
  info.si_value = {};
}

void await_signals(void* set) noexcept {
  self->awaits.store(*static_cast<const std::uint64_t*>(set));
  poke_watchdog();  // also where fewer come: it must not take another, since to give it back would change the order
}

int timed_wait_signal(const sigset_t* set, siginfo_t* out, const timespec* timeout) {
  std::uint64_t wanted;
  std::memcpy(&wanted, set, sizeof wanted);
  if (timeout && (timeout->tv_sec < 0 || timeout->tv_nsec < 0 || timeout->tv_nsec >= kSecond)) return errno = EINVAL, -1;
  const bool ends = timeout && timeout->tv_sec < kForEver;
  const std::int64_t deadline = ends ? now_ns() + timeout->tv_sec * kSecond + timeout->tv_nsec : -1;
  const bool by_way_of_main = self && !is_leader() && raw_getpid() == self->pid.load();
  siginfo_t info{};
  const auto take = [&] {
    long taken;
    do taken = until_interrupted([&] { return take_signal(&cancellable_call, wanted, &info, deadline); });
    while (by_way_of_main && !failed(taken) && is_sent_to_group(info));
    return taken;
  };
  const long taken = by_way_of_main ? while_awaiting(wanted, take) : take();
  if (failed(taken)) return errno = static_cast<int>(-taken), -1;
  unmark_passed_on(info);
  if (out) *out = info;
  return static_cast<int>(taken);
}

int wait_signal_info(const sigset_t* set, siginfo_t* info) { return timed_wait_signal(set, info, nullptr); }

int wait_signal(const sigset_t* set, int* signal) {
  int taken;
  do taken = timed_wait_signal(set, nullptr, nullptr);
  while (taken < 0 && errno == EINTR);
  if (taken < 0) return errno;
  *signal = taken;
  return 0;
}

void pass_signals_on() noexcept {
  const std::int64_t end = now_ns() + kSecond;
  std::uint64_t elsewhere = handled_elsewhere();
  for (;;) {
    std::uint64_t awaited = bit(kPoke) | elsewhere;
    for (const Thread& t : threads)
      if (&t != leader && t.in_use.load()) awaited |= t.awaits.load();
    siginfo_t info{};
    const auto at_once = [](auto... arguments) { return raw_syscall(arguments...); };
    const long taken = take_signal(at_once, awaited, &info, end);
    if (taken == kPoke && info.si_code == SI_TIMER) timer_has_expired(info);
    answer_leader_call();
    end_taking_in();
    if (taken == -EAGAIN) return;
    if (!failed(taken) && taken != kPoke && !pass_on(info)) elsewhere &= ~bit(info.si_signo);
  }
}

}  // namespace mortise::isolate
