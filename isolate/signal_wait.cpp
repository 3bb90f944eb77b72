// signal_wait.cpp: who waits for which signal.
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
#include "raw.hpp"
#include "signal_marks.hpp"
#include "signal_masks.hpp"
#include "signal_pass.hpp"
#include "signal_take.hpp"
#include "signals.hpp"
#include "thread.hpp"
#include "watchdog.hpp"

namespace mortise::isolate {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000, kForEver = INT64_MAX / kSecond / 2;

/// `now`: of these one may be passed on.
void await(std::uint64_t set, std::uint64_t now) noexcept {
  self->awaits.store(0);
  self->announced.store(0);  // a handler that comes in between leaves both to this
  wait_for_passing();        // first: what is being passed on belongs to what was said before
  self->is_served.store(false);
  self->announced.store(set);
  self->awaits.store(now);
}

/// What was passed to the calling thread, which takes no more, and it has not taken.
template <class Each>
void take_what_was_passed(Each each) noexcept {
  await(0, 0);
  const std::uint64_t pending = pending_here();
  for (siginfo_t info{}; pending && !failed(take_pending(pending, &info));)
    if (is_passed_on(info)) {
      mark_as_passed_on(info);
      each(info);
    }
}

void queue_for_leader(siginfo_t& info) noexcept { raw_syscall(SYS_rt_sigqueueinfo, leader->pid.load(), info.si_signo, as_long(&info)); }

/// What it was passed while it took one that was sent to itself: another thread may be free for that. Which of those that queue was passed,
/// nobody can tell without taking all.
void give_back_the_other(std::uint64_t wanted) noexcept {
  const std::uint64_t mask = block_program_signals();
  const int pid = self->pid.load();
  if (siginfo_t info{}; const std::uint64_t other = self->passed.load() & pending_here() & wanted)
    if (!failed(take_pending(other, &info))) {
      if (!is_passed_on(info)) raw_syscall(SYS_rt_tgsigqueueinfo, pid, pid, info.si_signo, as_long(&info));
      else if (mark_as_passed_on(info); !return_signal(info)) queue_for_leader(info);
      self->passed.fetch_and(~bit_of(info.si_signo));
    }
  restore_signals(mask);
}

/// Main's wait: whoever sends it one of these does not end the program.
template <class Take>
long while_noted(std::uint64_t wanted, Take take) {
  if (!is_thread()) return take();
  const std::uint64_t before = self->announced.exchange(wanted);
  const long taken = take();
  self->announced.store(before);
  return taken;
}

}  // namespace

std::uint64_t pending_here() noexcept {
  std::uint64_t pending = 0;
  raw_syscall(SYS_rt_sigpending, as_long(&pending), kMaskBytes);
  return pending;
}

void await_further_signals(std::uint64_t set) noexcept { await(set, 0); }

void await_signals(void* set) noexcept {
  const std::uint64_t wanted = *static_cast<const std::uint64_t*>(set);
  await(wanted, wanted);
  poke_watchdog();  // also where fewer come: it must not take another, since to give it back would change the order
}

int timed_wait_signal(const sigset_t* set, siginfo_t* out, const timespec* timeout) {
  std::uint64_t wanted;
  std::memcpy(&wanted, set, sizeof wanted);
  if (timeout && (timeout->tv_sec < 0 || timeout->tv_nsec < 0 || timeout->tv_nsec >= kSecond)) return errno = EINVAL, -1;
  const bool ends = timeout && timeout->tv_sec < kForEver;
  const std::int64_t deadline = ends ? now_ns() + timeout->tv_sec * kSecond + timeout->tv_nsec : -1;
  const auto by_way_of_main = [] { return is_thread() && !is_leader(); };  // asked again: a handler may fork
  siginfo_t info{};
  if (!by_way_of_main()) have_one_back(wanted);
  const auto take = [&] {
    long taken;
    do taken = until_interrupted([&] { return take_signal_by(&cancellable_call, wanted, &info, deadline); });
    while (by_way_of_main() && !failed(taken) && is_sent_to_group(info));
    return taken;
  };
  long taken = by_way_of_main() ? while_awaiting(wanted, false, take) : while_noted(wanted, take);
  while (by_way_of_main() && (taken == -EAGAIN || taken == -EINTR)) {
    have_pending(wanted, 1);  // in main's process, where a thread that would not wait has let nobody look
    const long late = take_pending(wanted, &info);
    if (failed(late)) break;
    if (!is_sent_to_group(info)) taken = late;
  }
  if (taken == -EAGAIN && !by_way_of_main()) {
    have_one_back(wanted);
    taken = take_pending(wanted, &info);
  }
  if (failed(taken)) return errno = static_cast<int>(-taken), -1;
  if (by_way_of_main() && !is_passed_on(info)) give_back_the_other(wanted);
  unmark_passed_on(info);
  if (out) *out = info;
  return static_cast<int>(taken);
}

Awaiting stop_awaiting() noexcept {
  if (!self || is_leader() || self->announced.load() == 0) return {};
  const std::uint64_t mask = block_program_signals();  // another handler would find half of it
  const std::uint64_t now = self->awaits.exchange(0);
  wait_for_passing();
  const Awaiting before{self->announced.exchange(0), self->is_served.exchange(false) ? 0 : now};
  restore_signals(mask);
  return before;
}

void await_again(Awaiting before) noexcept {
  if (before.set == 0) return;
  const std::uint64_t mask = block_program_signals();  // another handler might take what is found here
  const bool has_one = before.now == 0 && (pending_here() & before.set);
  if (has_one) await_further_signals(before.set);
  else await_signals(&before.set);
  restore_signals(mask);
}

void give_signals_back() noexcept {
  take_what_was_passed([](siginfo_t& info) {
    if (!return_signal(info)) queue_for_leader(info);
  });
}

void leave_signals(void*) {
  if (is_leader()) return;
  take_what_was_passed([](siginfo_t& info) {
    if (!leave_signal(info)) queue_for_leader(info);
  });
}

void have_pending(std::uint64_t set, std::size_t most) noexcept {
  const std::uint64_t here = pending_here();
  for (; most > 0 && !(here & set); --most)
    if (!have_one_pending(set)) return;
}

void let_pending_in(std::uint64_t mask) noexcept {
  const std::uint64_t set = pending_and_stopped() & ~mask;
  if (!set || !is_thread() || is_leader()) return;
  if (!have_one_pending(set)) none_is_pending(set);
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

}  // namespace mortise::isolate
