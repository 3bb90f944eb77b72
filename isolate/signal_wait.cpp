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
//
// Who waits or handles in a loop is about to have the next one: the watchdog keeps in hand for a moment what nobody would have. What then
// goes back would come behind those of its number, so they are taken first and go back behind it.
//
// Where as many are queued as may be, the watchdog keeps in hand what it cannot pass on, and takes some more to make room (queue_limit.hpp).
#include "signal_wait.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include "actions.hpp"
#include "cancel.hpp"
#include "leader_call.hpp"
#include "orphans.hpp"
#include "queue_limit.hpp"
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
constexpr std::int64_t kSecond = 1'000'000'000, kMillisecond = 1'000'000, kForEver = INT64_MAX / kSecond / 2;
constexpr std::int64_t kPatience = 100 * kMillisecond;  // with a signal that nobody would have

constexpr std::uint64_t bit(int signal) noexcept { return 1ull << (signal - 1); }
constexpr std::uint64_t kOldKind = bit(32) - 1;  // one of a number is pending at most, and comes where there is no room as well

/// These, and those that may not be taken before them where one thread would have both: the lower numbers of those that are queued come first.
constexpr std::uint64_t with_those_behind(std::uint64_t numbers) noexcept {
  const std::uint64_t queued = numbers & ~kOldKind, lowest = queued & -queued;
  return numbers | (queued ? ~(lowest - 1) : 0);
}

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

std::uint64_t awaited_by(const Thread& t) noexcept {
  return &t != leader && t.in_use.load() && t.pid.load() > 0 && t.ended.load() == 0 ? t.awaits.load() : 0;
}

/// 0, or -EAGAIN where there is no room for it.
long send(Thread& t, siginfo_t& info) noexcept {
  const int pid = t.pid.load();
  t.passed.fetch_or(bit(info.si_signo) & kOldKind);
  const long sent = raw_syscall(SYS_rt_tgsigqueueinfo, pid, pid, info.si_signo, as_long(&info));
  if (sent == -EAGAIN) narrow_queue();
  return sent;
}

/// `takes`: whether it would have it; it may have ended or given up since that was asked.
long pass_to(Thread& t, siginfo_t& info, std::uint64_t (*takes)(const Thread&) noexcept) noexcept {
  passing.store(static_cast<std::uint32_t>(t.index));  // before what it takes is read, which pairs with wait_for_passing()
  const long sent = takes(t) & bit(info.si_signo) ? send(t, info) : -ESRCH;
  passing.store(0);
  futex_wake(&passing, kEveryone);
  return sent;
}

/// To wait where it was sent to. False: there is no room for it.
bool give_back(siginfo_t info) noexcept {
  if (info.si_code != SI_QUEUE || info.si_value.sival_ptr != threads) info.si_errno = 0;  // main takes it as it was sent
  const bool was_narrow = is_queue_narrow();
  widen_queue();
  if (raw_syscall(SYS_rt_sigqueueinfo, leader->pid.load(), info.si_signo, as_long(&info)) != -EAGAIN) return true;
  if (was_narrow) narrow_queue();
  return false;
}

/// What is passed on at one time.
struct Turn {
  bool is_long;                 // what nobody would have at the moment goes back
  std::uint64_t gone_back = 0;  // to main's queue
  std::uint64_t stays = 0;      // what was not passed on
  bool is_refused = false;      // one was not, for as many are queued as may be
};

/// False: there is no room for it, or nobody would have it at the moment.
bool pass_on(siginfo_t& info, Turn& turn) noexcept {
  const std::uint64_t own = bit(info.si_signo);
  // A lower number that was not passed on is to come first, where one thread would have both. What it would have is asked once for both.
  const std::uint64_t earlier = (turn.stays | turn.gone_back) & ~kOldKind & (own - 1);
  if (!(turn.gone_back & own))
    for (const auto takes : {&awaited_by, &let_in_by})
      for (Thread& t : threads)
        if (const std::uint64_t wanted = takes(t); (wanted & own) && !(wanted & earlier))
          if (const long sent = pass_to(t, info, takes); sent == 0 || sent == -EAGAIN) {
            turn.is_refused |= sent != 0;
            return sent == 0;
          }
  if (!turn.is_long && !(kOldKind & own)) return false;
  turn.gone_back |= own;
  if (give_back(info)) return true;
  turn.is_refused = true;
  return false;
}

/// What has not been passed on yet, in the order it came. The watchdog's alone; main may ask whether it is empty.
class Hand {
 public:
  void drop() noexcept { count_ = 0; }

  /// Takes one more of `set`; with a full hand, unless that is to make room, one of the old kind, which is always passed on, or a lower number.
  long take(std::uint64_t set, std::int64_t deadline, bool makes_room) noexcept {
    if (count_ >= (makes_room ? kMost - 64 : kQueueRoom)) set &= bit(kExpiry) | ~with_those_behind(numbers() & ~kOldKind);
    return take_one(set, deadline);
  }

  /// Takes those that what is in hand may not come behind, if it goes back; not all, where they are very many.
  void take_those_behind() noexcept {
    const std::uint64_t set = with_those_behind(numbers() & ~kOldKind);
    while (set && count_ < kMost - 64 && !failed(take_one(set, 0))) {}
  }

  bool is_empty() noexcept { return shared(count_).load() == 0; }

  std::uint64_t numbers() const noexcept {
    std::uint64_t all = 0;
    for (int i = 0; i < count_; ++i) all |= bit(signals_[i].si_signo);
    return all;
  }

  /// False: there is no place.
  bool put(const siginfo_t& info) noexcept {
    if (count_ == kMost) return false;
    signals_[count_++] = info;
    return true;
  }

  /// Lets go of those that `pass` passes on, of a number in their order; `stays` are not, and those are added to it that were not.
  template <class Pass>
  void pass(std::uint64_t& stays, Pass pass) noexcept {
    int left = 0;
    for (int i = 0; i < count_; ++i) {
      if (!(stays & bit(signals_[i].si_signo)) && pass(signals_[i])) {
        first_went_ |= i == 0;
        continue;
      }
      stays |= bit(signals_[i].si_signo);
      signals_[left++] = signals_[i];
    }
    count_ = left;
  }

  /// Whether the first was let go since that was asked last.
  bool has_first_gone() noexcept { return std::exchange(first_went_, false); }

 private:
  static constexpr int kMost = 2048;

  long take_one(std::uint64_t set, std::int64_t deadline) noexcept {
    siginfo_t& info = signals_[count_] = {};
    const long taken = take_signal(&at_once, set, &info, deadline);
    if (taken == kExpiry && info.si_code == SI_TIMER) timer_has_expired(info);
    if (failed(taken) || taken == kExpiry || is_poke(info)) return taken;
    mark_as_passed_on(info);
    ++count_;
    return taken;
  }

  siginfo_t signals_[kMost]{};
  int count_ = 0;
  bool first_went_ = false;
};
constinit Hand returned, hand;  // from threads that have ended, where main's queue has no room; and taken from there
constinit std::atomic<std::uint32_t> is_asked_back{0};

long take_back(void* info) noexcept { return returned.put(*static_cast<const siginfo_t*>(info)) ? 0 : -EAGAIN; }

/// All but `stays`, the older first.
template <class Pass>
void pass_all(std::uint64_t& stays, Pass pass) noexcept {
  returned.pass(stays, pass);
  hand.pass(stays, pass);
}

struct Request {
  std::uint64_t set;
  int thread;
};

/// One of those that are in hand, or else pending, to whoever asks for it.
long pass_pending(void* request) noexcept {
  const Request r = *static_cast<const Request*>(request);
  bool is_sent = false;
  for (int more = 0; !is_sent && more <= kQueueRoom + 1; ++more) {
    if (more > 0 && failed(hand.take(r.set, 0, true))) break;
    std::uint64_t stays = ~r.set;
    pass_all(stays, [&](siginfo_t& info) { return !is_sent && (is_sent = send(threads[r.thread], info) != -EAGAIN); });
  }
  return is_sent ? 0 : -EAGAIN;
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
  if (!by_way_of_main) have_signals_back();
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
  if (taken == -EAGAIN && !by_way_of_main && have_signals_back()) taken = take_signal(&at_once, wanted, &info, 0);
  if (failed(taken)) return errno = static_cast<int>(-taken), -1;
  unmark_passed_on(info);
  if (out) *out = info;
  return static_cast<int>(taken);
}

std::uint64_t stop_awaiting() noexcept { return self ? self->awaits.exchange(0) : 0; }

void await_again(std::uint64_t set) noexcept {
  if (set) await_signals(&set);
}

void give_signals_back() noexcept {
  self->awaits.store(0);
  wait_for_passing();
  std::uint64_t left = 0;
  raw_syscall(SYS_rt_sigpending, as_long(&left), kMaskBytes);
  for (siginfo_t info{}; left && !failed(take_signal(&at_once, left, &info, 0));)
    if (is_passed_on(info)) {
      mark_as_passed_on(info);
      const long sent = raw_syscall(SYS_rt_sigqueueinfo, leader->pid.load(), info.si_signo, as_long(&info));
      if (sent == -EAGAIN) in_leader(&take_back, info);
    }
}

void forget_passing() noexcept {
  passing.store(0);
  returned.drop();
  hand.drop();
  is_asked_back.store(0);
  widen_queue();
}

void have_pending(std::uint64_t set, std::size_t most) noexcept {
  std::uint64_t here = 0;
  raw_syscall(SYS_rt_sigpending, as_long(&here), kMaskBytes);
  for (Request r{set, self->index}; most > 0 && !(here & set); --most)
    if (failed(in_leader(&pass_pending, r))) return;
}

bool have_signals_back() noexcept {
  if ((returned.is_empty() && hand.is_empty()) || !is_thread() || !is_leader() || !has_watchdog()) return false;
  is_asked_back.store(1);
  poke_watchdog();
  while (is_asked_back.load()) futex_wait(&is_asked_back, 1);
  return true;
}

void let_pending_in(std::uint64_t mask) noexcept {
  const std::uint64_t set = pending_and_stopped() & ~mask;
  if (!set || !is_thread() || is_leader()) return;
  Request r{set, self->index};
  if (failed(in_leader(&pass_pending, r))) none_is_pending(set);
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
  std::uint64_t elsewhere = 0;
  bool is_refused = false;
  for (std::int64_t look_at = 0, stuck_since = 0;;) {
    const std::int64_t now = now_ns();
    if (now >= look_at) {
      elsewhere = handled_elsewhere() | bit(kPoke) | bit(kExpiry);
      look_at = end;
    }
    std::uint64_t awaited = elsewhere;
    for (const Thread& t : threads)
      if (&t != leader && t.in_use.load()) awaited |= t.awaits.load();
    const long taken = hand.take(awaited, stuck_since ? now + kMillisecond : is_queue_narrow() ? 0 : look_at, is_refused);
    const bool is_asked = is_asked_back.load();
    Turn turn{is_asked || (stuck_since && (now - stuck_since >= kPatience || leader_lets_in(returned.numbers() | hand.numbers())))};
    if (turn.is_long && !is_queue_narrow()) hand.take_those_behind();
    pass_all(turn.stays, [&](siginfo_t& info) { return pass_on(info, turn); });
    const bool is_passed = turn.stays == 0;
    is_refused = turn.is_refused;
    if (elsewhere & turn.gone_back) {
      elsewhere &= ~with_those_behind(turn.gone_back);  // or it would be taken again at once
      look_at = now_ns() + kPatience;
    }
    if (is_passed) stuck_since = 0;
    else if (returned.has_first_gone() | hand.has_first_gone() | !stuck_since) stuck_since = now_ns();
    if (is_passed && failed(taken)) widen_queue();
    if (is_asked) {
      is_asked_back.store(0);
      futex_wake(&is_asked_back, kEveryone);
    }
    answer_leader_call();  // with nothing in hand that could go: who asks for what is pending may be who awaited it just before
    end_taking_in();
    if (taken == -EAGAIN && now_ns() >= end) return;
  }
}

}  // namespace mortise::isolate
