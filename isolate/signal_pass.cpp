// signal_pass.cpp: the watchdog takes what was sent to the program and passes it on.
//
// Who was passed one has that to take first, and is passed no more until it says again what it awaits, or its handler has begun: another
// thread may be free meanwhile.
//
// Who waits or handles in a loop is about to have the next one: the watchdog keeps in hand for a moment what nobody would have. Main is sent
// what it would have itself: to its thread, where that comes before what is queued for the process. What goes back to the process's queue,
// for nobody would have it, would come behind those of its number, so they are taken first and go back behind it.
//
// Where as many are queued as may be, the watchdog keeps in hand what it cannot pass on, and takes some more to make room (queue_limit.hpp).
#include "signal_pass.hpp"

#include <bit>
#include <cerrno>

#include "leader_call.hpp"
#include "orphans.hpp"
#include "queue_limit.hpp"
#include "raw.hpp"
#include "signal_hand.hpp"
#include "signal_marks.hpp"
#include "signal_masks.hpp"
#include "signals.hpp"
#include "thread.hpp"
#include "watchdog.hpp"

namespace mortise::isolate {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000, kMillisecond = 1'000'000;
constexpr std::int64_t kPatience = 100 * kMillisecond;  // with a signal that nobody would have
constexpr std::int64_t kSoon = kMillisecond / 2;        // a handler that was sent one has begun, or one that ends has returned
constexpr std::int64_t kOften = 5 * kMillisecond;       // all threads are asked

constexpr std::uint64_t kOwn = bit_of(kPoke) | bit_of(kExpiry);

constinit std::atomic<std::uint32_t> passing{0};  // the index of the thread that one is passed on to; 0: none, for that is main
constinit int last_taker = 0;                     // its index: it is asked first
constinit std::atomic<bool> is_stopped{false};    // by exec: all that is pending is the new program's
constinit std::atomic<std::uint64_t> looked_for{0};      // it takes these
constinit std::atomic<std::uint64_t> not_looked_for{0};  // nobody would have these a moment ago
constinit std::atomic<std::uint64_t> wanted_again{0};    // but somebody has done with one

enum Asked : std::uint32_t { kNothing, kOne, kOneOfEach, kAll, kToQueue };
constinit std::atomic<std::uint32_t> asked_back{kNothing};  // by main
constinit std::atomic<std::uint64_t> asked_numbers{0};

Takes awaited_by(const Thread& t) noexcept {
  if (&t == leader || !t.in_use.load() || t.pid.load() <= 0 || t.ended.load() != 0) return {};
  return {t.announced.load(), t.awaits.load()};
}

/// 0, or -EAGAIN where there is no room for it.
long send(Thread& t, siginfo_t& info) noexcept {
  const int pid = t.pid.load();
  t.passed.fetch_or(bit_of(info.si_signo) & kOldKind);
  const long sent = raw_syscall(SYS_rt_tgsigqueueinfo, pid, pid, info.si_signo, as_long(&info));
  if (sent == -EAGAIN) narrow_queue();
  return sent;
}

/// `asked`: what it takes; it may have ended or given up since that was asked.
long pass_to(Thread& t, siginfo_t& info, Takes (*asked)(const Thread&) noexcept) noexcept {
  passing.store(static_cast<std::uint32_t>(t.index));  // before what it takes is read, which pairs with wait_for_passing()
  std::uint64_t now = asked(t).now;
  const long sent = now & bit_of(info.si_signo) ? send(t, info) : -ESRCH;
  if (sent == 0 && asked == &awaited_by) {
    t.is_served.store(true);
    t.awaits.compare_exchange_strong(now, 0);
  }
  passing.store(0);
  futex_wake(&passing, kEveryone);
  return sent;
}

/// To main's thread, or to wait where it was sent to. False: there is no room for it.
enum class Place { thread, process };
bool give_back(siginfo_t info, Place place) noexcept {
  const bool to_thread = place == Place::thread;
  unmark_for_leader(info);
  const bool was_narrow = is_queue_narrow();
  widen_queue();
  const int pid = leader->pid.load();
  const long sent = to_thread ? raw_syscall(SYS_rt_tgsigqueueinfo, pid, pid, info.si_signo, as_long(&info))
                              : raw_syscall(SYS_rt_sigqueueinfo, pid, info.si_signo, as_long(&info));
  if (sent != -EAGAIN) return true;
  if (was_narrow) narrow_queue();
  return false;
}

/// What is passed on at one time.
struct Turn {
  bool is_long;                 // what nobody would have at the moment goes back
  bool asks_all;                // also those who let none in when that was last looked for
  bool are_all_mains;           // main asks for all that there are; or for one of each of these numbers
  std::uint64_t mains;
  std::uint64_t gone_back = 0;  // to main's queue
  std::uint64_t stays = 0;      // what was not passed on
  bool is_refused = false;      // one was not, for as many are queued as may be
  bool is_any_sent = false;
};

/// Sends it to a thread that would have it. 0, -EAGAIN where there is no room for it, -ESRCH where there is none such.
long pass_to_thread(siginfo_t& info, const Turn& turn, std::uint64_t earlier) noexcept {
  const std::uint64_t own = bit_of(info.si_signo);
  for (const auto asked : {&awaited_by, &let_in_by})
    for (int i = 0, all = thread_records(), first = last_taker; i < all; ++i) {
      Thread& t = threads[(first + i) % all];
      if (asked == &let_in_by && !turn.asks_all && !(own & kOldKind) && !let_some_in(t)) continue;
      const Takes takes = asked(t);  // what it would have is asked once for both numbers
      if (!(takes.now & own) || (takes.any & earlier)) continue;
      const long sent = pass_to(t, info, asked);
      if (sent == 0) last_taker = t.index;
      if (sent == 0 || sent == -EAGAIN) return sent;
    }
  const Takes main = let_in_by_leader();
  if (!(main.now & own) || (main.any & earlier)) return -ESRCH;
  return give_back(info, Place::thread) ? 0 : -EAGAIN;
}

/// False: there is no room for it, or nobody would have it at the moment.
bool pass_on(siginfo_t& info, Turn& turn) noexcept {
  const std::uint64_t own = bit_of(info.si_signo);
  // A lower number that was not passed on is to come first, where one thread would have both.
  const std::uint64_t earlier = (turn.stays | turn.gone_back) & ~kOldKind & (own - 1);
  const bool is_stopping = is_stopped.load();
  long sent = -ESRCH;
  if ((turn.mains & own) && !(turn.mains & earlier)) {
    sent = give_back(info, Place::thread) ? 0 : -EAGAIN;
    if (!turn.are_all_mains) turn.mains &= ~own;
  } else if (!(turn.gone_back & own) && !is_stopping) {
    sent = pass_to_thread(info, turn, earlier);
  }
  turn.is_refused |= sent == -EAGAIN;
  turn.is_any_sent |= sent == 0;
  if (sent == 0 || sent == -EAGAIN) return sent == 0;
  if (!turn.is_long && !(kOldKind & own)) return false;
  turn.gone_back |= own;
  const bool is_back = give_back(info, Place::process);
  turn.is_refused |= !is_back;
  return is_back;
}

constinit Hand returned, hand;  // what threads had been passed when they ended, which comes first; and what was taken from main's queue

long take_back(void* info) noexcept { return returned.put(*static_cast<const siginfo_t*>(info)) ? 0 : -EAGAIN; }

std::uint64_t numbers_in_hand() noexcept { return returned.numbers() | hand.numbers(); }

/// All but those of `stays`, to which numbers are added that were not: lower numbers first, and of a number the older. A full hand may have
/// left some of a number in main's queue: of `taken` these come before a higher number, which waits for the next turn.
template <class Pass>
void pass_all(std::uint64_t& stays, std::uint64_t taken, Pass pass) noexcept {
  std::uint64_t lower = 0;  // those that were in hand
  for (std::uint64_t left = numbers_in_hand() & ~stays; left; left &= left - 1) {
    const std::uint64_t own = left & -left;
    const int number = std::countr_zero(left) + 1;
    hand.take_lower(taken & lower);
    stays |= numbers_in_hand() & lower;
    if (!returned.pass(number, pass) || !hand.pass(number, pass)) stays |= own;
    lower |= own & ~kOldKind;
  }
}

/// What threads had been passed and not taken when exec was about to end them, older than what is in hand.
constexpr int kLeftMost = 128;
constinit siginfo_t left[kLeftMost]{};
constinit std::atomic<int> left_count{0};
constinit std::atomic<bool> is_all_left{false};

void take_what_is_left() noexcept {
  if (!is_all_left.exchange(false)) return;
  const int count = left_count.exchange(0);
  for (int i = 0; i < count && i < kLeftMost; ++i) returned.put(left[i]);
}

struct Request {
  std::uint64_t set;
  int thread;
};

bool send_to(Thread& t, siginfo_t& info) noexcept { return &t == leader ? give_back(info, Place::thread) : send(t, info) != -EAGAIN; }

/// One of those that are in hand or pending, to whoever asks for it: of the lowest number, and of that the first.
long pass_pending(void* request) noexcept {
  const Request r = *static_cast<const Request*>(request);
  if (is_stopped.load()) return -EAGAIN;
  const std::uint64_t here = numbers_in_hand() & r.set;
  std::uint64_t missing = here ? r.set & ((here & -here) - 1) : r.set;
  bool is_sent = false;
  for (int more = 0; !is_sent && more <= kQueueRoom + 1; ++more, missing = r.set) {
    if (failed(hand.take(missing, 0, true)) && more > 0) break;
    std::uint64_t stays = ~r.set;
    pass_all(stays, 0, [&](siginfo_t& info) { return !is_sent && (is_sent = send_to(threads[r.thread], info)); });
  }
  return is_sent ? 0 : -EAGAIN;
}

/// Main waits until the watchdog has taken its turn.
void ask_back(Asked what, std::uint64_t numbers) noexcept {
  if (!is_thread() || !is_leader() || !has_watchdog()) return;
  const std::uint64_t mask = block_program_signals();  // a handler might ask for something else
  asked_numbers.store(numbers);
  asked_back.store(what);
  poke_watchdog();
  for (std::uint32_t seen; (seen = asked_back.load()) != kNothing;) futex_wait(&asked_back, seen);
  restore_signals(mask);
}

bool are_some_in_hand() noexcept { return !returned.is_empty() || !hand.is_empty() || left_count.load() > 0; }

/// Whether some are in hand, or the watchdog may be taking one just now.
bool may_have(std::uint64_t numbers) noexcept { return are_some_in_hand() || (looked_for.load() & numbers); }

}  // namespace

void wait_for_passing() noexcept {
  for (const auto own = static_cast<std::uint32_t>(self->index); passing.load() == own;) futex_wait(&passing, own);
}

bool have_one_pending(std::uint64_t set) noexcept {
  Request r{set, self->index};
  return !failed(in_leader(&pass_pending, r));
}

bool return_signal(siginfo_t info) noexcept { return has_watchdog() && !failed(in_leader(&take_back, info)); }

bool leave_signal(const siginfo_t& info) noexcept {
  const int i = left_count.fetch_add(1);
  if (i < kLeftMost) left[i] = info;
  return i < kLeftMost;
}

void have_one_back(std::uint64_t numbers) noexcept {
  if (may_have(numbers)) ask_back(kOne, numbers);
}

void have_each_back(std::uint64_t numbers) noexcept {
  if (may_have(numbers)) ask_back(kOneOfEach, numbers);
}

void have_all_signals_back() noexcept {
  is_all_left.store(true);
  for (int i = 0; i < 100 && may_have(~0ull); ++i) ask_back(kAll, ~0ull);  // others may fill the queue meanwhile
}

void handler_ends(int signal) noexcept {
  const std::uint64_t wanted = not_looked_for.load(std::memory_order_relaxed) & bit_of(signal);
  if ((!wanted && !are_some_in_hand()) || !is_thread()) return;
  wanted_again.fetch_or(wanted);
  poke_watchdog();
}

void stop_passing_on() noexcept { is_stopped.store(true); }

void have_queue_whole() noexcept {
  if (are_some_in_hand()) have_queue_for_good();
}

void have_queue_for_good() noexcept {
  int turns = 0;
  do ask_back(kToQueue, ~0ull);
  while (++turns < 100 && are_some_in_hand());  // others may fill the queue meanwhile
}

void forget_passing() noexcept {
  passing.store(0);
  is_stopped.store(false);
  is_all_left.store(false);
  left_count.store(0);
  returned.drop();
  hand.drop();
  asked_back.store(kNothing);
  looked_for.store(0);
  not_looked_for.store(0);
  wanted_again.store(0);
  widen_queue();
}

void pass_signals_on() noexcept {
  const std::int64_t end = now_ns() + kSecond;
  std::uint64_t elsewhere = 0;
  bool is_refused = false;
  for (std::int64_t look_at = 0, stuck_since = 0, idle_since = 0, asked_all_at = 0;;) {
    const std::int64_t now = now_ns(), stuck = stuck_since ? now - stuck_since : 0, idle = stuck_since ? now - idle_since : 0;
    if (now >= look_at) {
      const auto [now_there, later] = handled_elsewhere();
      elsewhere = now_there;
      not_looked_for.store(later);
      look_at = end;
    }
    elsewhere |= wanted_again.exchange(0);
    std::uint64_t awaited = elsewhere;
    for (int i = 0; i < thread_records(); ++i) awaited |= awaited_by(threads[i]).now;
    const std::int64_t tick = idle < kSoon ? kSoon / 10 : kMillisecond;
    const bool has_to_do = is_queue_narrow() || !returned.is_empty() || asked_back.load();  // its poke may be what a call took
    const std::int64_t until = stuck_since ? now + tick : has_to_do ? 0 : look_at;
    if (is_stopped.load()) awaited = 0;
    looked_for.store(awaited);
    const long taken = hand.take(awaited | kOwn, until, is_refused);
    hand.take_lower(awaited);
    const std::uint32_t asked = asked_back.load();
    const std::uint64_t numbers = asked_numbers.load();
    if (asked == kAll) take_what_is_left();
    if (Request r{numbers, leader->index}; asked == kOne && (numbers_in_hand() & numbers)) pass_pending(&r);
    Turn turn{.is_long = stuck >= kPatience || asked == kToQueue,
              .asks_all = idle >= kOften && now - asked_all_at >= kOften,
              .are_all_mains = asked == kAll,
              .mains = asked == kAll || asked == kOneOfEach ? numbers : 0};
    if (turn.is_long && !is_queue_narrow()) hand.take_those_behind();
    pass_all(turn.stays, turn.is_long ? 0 : awaited, [&](siginfo_t& info) { return pass_on(info, turn); });
    const bool is_passed = turn.stays == 0;
    is_refused = turn.is_refused;
    const std::uint64_t mains = with_those_behind(turn.gone_back) | (asked ? numbers : 0);
    if (elsewhere & mains) {  // or they would be taken again at once
      elsewhere &= ~mains;
      not_looked_for.fetch_or(mains);
      look_at = now_ns() + kPatience;
    }
    if (turn.asks_all) asked_all_at = now_ns();
    if (turn.is_any_sent || !stuck_since || taken == kPoke) idle_since = now_ns();
    if (is_passed) stuck_since = 0;
    else if (returned.has_first_gone() | hand.has_first_gone() | !stuck_since) stuck_since = now_ns();
    if (is_passed && failed(taken)) widen_queue();
    if (asked) {
      asked_back.store(kNothing);
      futex_wake(&asked_back, kEveryone);
    }
    answer_leader_call();  // with nothing in hand that could go: who asks for what is pending may be who awaited it just before
    end_taking_in();
    if (taken == -EAGAIN && now_ns() >= end) return;
  }
}

}  // namespace mortise::isolate
