// signal_wait.cpp: who waits for which signal, and passing them on.
//
//   somebody        kill(pid of main) ----> main's process: blocked by its threads, so pending
//   watchdog        sigtimedwait(what threads await, and the poke) ----> sigqueue to the thread that awaits it
//   thread          awaits = set; poke the watchdog; sigtimedwait
//
// A signal to the whole process group (a terminal's) reaches every thread's process by itself, and main's copy is
// passed on besides: a copy that did not come by way of main is dropped.
//
// A thread whose time is over may be passed one at that moment. It says first that it awaits no more, then waits until the watchdog is not
// passing one on to it, and looks once more, in main's process as well. What it has not taken when it ends goes back to main.
#include "signal_wait.hpp"

#include <cerrno>
#include <cstring>

#include "actions.hpp"
#include "cancel.hpp"
#include "leader_call.hpp"
#include "orphans.hpp"
#include "raw.hpp"
#include "signal_files.hpp"
#include "signal_masks.hpp"
#include "signals.hpp"
#include "thread.hpp"
#include "timers.hpp"
#include "watchdog.hpp"

namespace mortise::isolate {
namespace {

constexpr long kMaskBytes = 8;
constexpr int kPassedOn = 0x6d6f7274;  // in si_errno, which is 0 in all that are queued
constexpr std::int64_t kSecond = 1'000'000'000, kForEver = INT64_MAX / kSecond / 2;

constexpr std::uint64_t bit(int signal) noexcept { return 1ull << (signal - 1); }

constinit std::atomic<std::uint32_t> passing{0};  // the index of the thread that one is passed on to; 0: none, for that is main

long at_once(long number, long a, long b, long c, long d, long e, long f) noexcept { return raw_syscall(number, a, b, c, d, e, f); }

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

bool send(Thread& t, siginfo_t& info) noexcept {
  const int pid = t.pid.load();
  t.passed.fetch_or(bit(info.si_signo));
  return !failed(raw_syscall(SYS_rt_tgsigqueueinfo, pid, pid, info.si_signo, as_long(&info)));
}

/// `takes`: whether it would have it; it may have ended or given up since that was asked.
bool pass_to(Thread& t, siginfo_t& info, bool (*takes)(const Thread&, int) noexcept) noexcept {
  passing.store(static_cast<std::uint32_t>(t.index));  // before what it takes is read, which pairs with wait_for_passing()
  const bool is_sent = takes(t, info.si_signo) && send(t, info);
  passing.store(0);
  futex_wake(&passing, kEveryone);
  return is_sent;
}

/// False: nobody would have it any more, and it waits where it was sent to.
bool pass_on(siginfo_t& info) noexcept {
  mark_as_passed_on(info);
  for (Thread& t : threads)
    if (awaits_it(t, info.si_signo) && pass_to(t, info, &awaits_it)) return true;
  for (Thread& t : threads)
    if (lets_in(t, info.si_signo) && pass_to(t, info, &lets_in)) return true;
  raw_syscall(SYS_rt_sigqueueinfo, leader->pid.load(), info.si_signo, as_long(&info));
  return false;
}

/// The calling thread has said that it takes no more.
void wait_for_passing() noexcept {
  for (const auto own = static_cast<std::uint32_t>(self->index); passing.load() == own;) futex_wait(&passing, own);
}

}  // namespace

// kill() may not be imitated in another's name, so such a signal travels as one of sigqueue() with a value of ours.
void mark_as_passed_on(siginfo_t& info) noexcept {
  info.si_errno = kPassedOn;
  if (info.si_code < 0 && info.si_code != SI_TKILL) return;
  info.si_code = SI_QUEUE;
  info.si_value.sival_ptr = threads;
}

// Where as many signals are queued as may be, one of the old ones comes all the same, but what was said with it is lost.
bool is_passed_on(const siginfo_t& info) noexcept {
  if (info.si_code == SI_USER && info.si_pid == 0) return self && (self->passed.load() & bit(info.si_signo));
  return info.si_code < 0 && info.si_errno == kPassedOn;
}

void unmark_passed_on(siginfo_t& info) noexcept {
  if (!is_passed_on(info)) return;
  if (self) self->passed.fetch_and(~bit(info.si_signo));
  info.si_errno = 0;
  if (info.si_code != SI_QUEUE || info.si_value.sival_ptr != threads) return;
  info.si_code = SI_USER;
  info.si_value = {};
}

void await_signals(void* set) noexcept {
  self->awaits.store(*static_cast<const std::uint64_t*>(set));
  wait_for_passing();
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
  long taken = by_way_of_main ? while_awaiting(wanted, take) : take();
  while (by_way_of_main && (taken == -EAGAIN || taken == -EINTR)) {
    have_pending(wanted, 1);  // in main's process, where a thread that would not wait has let nobody look
    const long late = take_signal(&at_once, wanted, &info, 0);
    if (failed(late)) break;
    if (!is_sent_to_group(info)) taken = late;
  }
  if (failed(taken)) return errno = static_cast<int>(-taken), -1;
  unmark_passed_on(info);
  if (out) *out = info;
  return static_cast<int>(taken);
}

void give_signals_back() noexcept {
  self->awaits.store(0);  // a handler may have jumped out of a wait
  wait_for_passing();
  std::uint64_t left = 0;
  raw_syscall(SYS_rt_sigpending, as_long(&left), kMaskBytes);
  for (siginfo_t info{}; left && !failed(take_signal(&at_once, left, &info, 0));)
    if (is_passed_on(info)) mark_as_passed_on(info), raw_syscall(SYS_rt_sigqueueinfo, leader->pid.load(), info.si_signo, as_long(&info));
}

void forget_passing() noexcept { passing.store(0); }

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
    const long taken = take_signal(&at_once, awaited, &info, end);
    if (!failed(taken) && taken != kPoke && !pass_on(info)) elsewhere &= ~bit(info.si_signo);
    if (taken == kPoke && info.si_code == SI_TIMER) timer_has_expired(info);
    answer_leader_call();  // with nothing in hand: who asks for what is pending may be who awaited it just before
    end_taking_in();
    if (taken == -EAGAIN) return;
  }
}

}  // namespace mortise::isolate
