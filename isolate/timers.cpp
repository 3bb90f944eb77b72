// timers.cpp: timers of the leader's process, whoever makes, sets or deletes them (leader_call.hpp).
//
//   timer_t    the kernel's number there; or, with kOwn set, the number in the process of the thread in kOwner's bits
//
//   SIGEV_THREAD    kernel ---> watchdog: counts in the record, wakes ---> notifier: one of the program's threads, which makes another
//                   for each time that the timer expires
#include "timers.hpp"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <pthread.h>

#include "create.hpp"
#include "leader_call.hpp"
#include "quiet.hpp"
#include "raw.hpp"
#include "signals.hpp"
#include "thread.hpp"
#include "watchdog.hpp"

namespace mortise::isolate {
namespace {

constexpr int kOwn = 1 << 30, kOwnerShift = 20, kNumberMask = (1 << kOwnerShift) - 1;

/// One system call on a timer; arguments that are not used are left out.
struct Call {
  long number;
  int clock, flags, timer;
  sigevent event;
  itimerspec value, old;
};

long make_call(void* argument) noexcept {
  Call& c = *static_cast<Call*>(argument);
  switch (c.number) {
    case SYS_timer_create:
      return raw_syscall(c.number, c.clock, as_long(&c.event), as_long(&c.timer));
    case SYS_timer_settime:
      return raw_syscall(c.number, c.timer, c.flags, as_long(&c.value), as_long(&c.old));
    case SYS_timer_gettime:
      return raw_syscall(c.number, c.timer, as_long(&c.value));
    default:
      return raw_syscall(c.number, c.timer);
  }
}

int answer(long result) noexcept { return failed(result) ? (errno = static_cast<int>(-result), -1) : static_cast<int>(result); }

int number_of(timer_t timer) noexcept { return static_cast<int>(reinterpret_cast<std::intptr_t>(timer)); }
bool is_own(int number) noexcept { return number & kOwn; }

/// In the process that has the timer; another thread's own is none of the caller's.
long call_for(timer_t timer, Call& c) noexcept {
  c.timer = number_of(timer);
  if (c.timer < 0) return -EINVAL;
  if (!is_own(c.timer)) return in_leader(&make_call, c);
  if (!self || self->index != (c.timer & ~kOwn) >> kOwnerShift) return -EINVAL;
  c.timer &= kNumberMask;
  return make_call(&c);
}

/// A function of the program to be called.
struct Notice {
  std::atomic<bool> in_use{false};
  std::atomic<std::uint64_t> expired{0};  // how often; above kLife, of which timer: the kernel still tells of an earlier one
  std::atomic<int> timer{-1};
  void (*function)(sigval) = nullptr;
  sigval value{};
  std::size_t stack_bytes = 0;  // 0: as usual
};

constexpr int kNoticesMax = 256, kLifeShift = 8;
constexpr std::uint64_t kLife = 1ull << 32;
constinit Notice notices[kNoticesMax]{};
constinit std::atomic<std::uint32_t> news{0};
constinit std::atomic<bool> has_notifier{false};

struct Given {
  void (*function)(sigval);
  sigval value;
};

void* call_function(void* memory) {
  const Given given = *static_cast<Given*>(memory);
  std::free(memory);
  given.function(given.value);
  return nullptr;
}

void start_function(const Given& call, std::size_t stack_bytes) noexcept {
  auto* const given = static_cast<Given*>(std::malloc(sizeof(Given)));
  if (!given) return;
  *given = call;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  if (stack_bytes) pthread_attr_setstacksize(&attributes, stack_bytes);
  pthread_t thread;
  if (create_thread(&thread, &attributes, &call_function, given) != 0) std::free(given);
  pthread_attr_destroy(&attributes);
}

/// As often as it has expired; not if it has become another timer since.
void notify_of(Notice& n) noexcept {
  std::uint64_t expired = n.expired.load();
  const std::uint64_t times = expired % kLife;
  if (times == 0) return;
  const Given call{n.function, n.value};
  const std::size_t stack_bytes = n.stack_bytes;
  if (!n.expired.compare_exchange_strong(expired, expired - times)) return void(news.fetch_add(1));  // again
  for (std::uint64_t i = 0; i < times; ++i) start_function(call, stack_bytes);
}

void* notify(void*) {
  for (;;) {
    const std::uint32_t seen = news.load();
    for (Notice& n : notices) notify_of(n);
    futex_wait(&news, seen);
  }
}

/// A thread like the program's own, since it makes others; no signal of the program is for it or for them.
bool start_notifier() noexcept {
  if (has_notifier.exchange(true)) return true;
  const std::uint64_t mask = block_program_signals();
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread;
  const bool made = create_thread(&thread, &attributes, &notify, nullptr) == 0;
  pthread_attr_destroy(&attributes);
  restore_signals(mask);
  if (!made) has_notifier.store(false);
  return made;
}

Notice* take_notice(const sigevent& event) noexcept {
  for (Notice& n : notices) {
    bool free = false;
    if (!n.in_use.compare_exchange_strong(free, true)) continue;
    n.timer.store(-1);
    n.function = event.sigev_notify_function;
    n.value = event.sigev_value;
    n.stack_bytes = 0;
    if (event.sigev_notify_attributes) pthread_attr_getstacksize(event.sigev_notify_attributes, &n.stack_bytes);
    return &n;
  }
  return nullptr;
}

void let_go(Notice& n) noexcept {
  n.expired.store((n.expired.load() / kLife + 1) * kLife);
  n.in_use.store(false);
}

long create_with_function(Call& c) noexcept {
  Notice* const n = start_notifier() && has_watchdog() ? take_notice(c.event) : nullptr;  // the first thread brings the watchdog
  if (!n) return -EAGAIN;
  const int index = static_cast<int>(n - notices);
  c.event = {};
  c.event.sigev_notify = SIGEV_THREAD_ID;
  c.event.sigev_signo = kExpiry;
  c.event.sigev_value.sival_int = static_cast<int>(n->expired.load() / kLife << kLifeShift) | index;
  c.event._sigev_un._tid = watchdog_id();
  const long result = in_leader(&make_call, c);
  if (failed(result)) let_go(*n);
  else n->timer.store(c.timer);
  return result;
}

bool stays_here(const Call& c) noexcept {
  const bool counts_cpu = c.clock < 0 || c.clock == CLOCK_PROCESS_CPUTIME_ID || c.clock == CLOCK_THREAD_CPUTIME_ID;
  const bool is_for_me = (c.event.sigev_notify & SIGEV_THREAD_ID) && c.event._sigev_un._tid == raw_gettid();
  return (counts_cpu || is_for_me) && is_thread() && !is_leader();
}

struct Interval {
  long number;
  itimerval value, old;
  bool sets;
  long seconds;
};

long make_interval_call(void* argument) noexcept {
  auto& i = *static_cast<Interval*>(argument);
  if (i.number == SYS_alarm) return raw_syscall(SYS_alarm, i.seconds);
  if (i.number == SYS_getitimer) return raw_syscall(SYS_getitimer, ITIMER_REAL, as_long(&i.old));
  return raw_syscall(SYS_setitimer, ITIMER_REAL, i.sets ? as_long(&i.value) : 0, as_long(&i.old));
}

}  // namespace

int create_timer(clockid_t clock, sigevent* event, timer_t* out) noexcept {
  Call c{};
  c.number = SYS_timer_create;
  c.clock = clock;
  if (event) {
    c.event = *event;
  } else {
    c.event.sigev_notify = SIGEV_SIGNAL;
    c.event.sigev_signo = SIGALRM;
  }
  if (c.event.sigev_notify == SIGEV_THREAD) {
    const long result = clock < 0 || clock == CLOCK_THREAD_CPUTIME_ID ? -EAGAIN : create_with_function(c);
    if (!failed(result)) *out = reinterpret_cast<timer_t>(static_cast<std::intptr_t>(c.timer));
    return answer(result);
  }
  const bool stays = stays_here(c);
  const long result = stays ? make_call(&c) : in_leader(&make_call, c);
  if (failed(result)) return answer(result);
  if (stays && c.timer > kNumberMask) return raw_syscall(SYS_timer_delete, c.timer), answer(-EAGAIN);
  if (stays) c.timer |= kOwn | self->index << kOwnerShift;
  *out = reinterpret_cast<timer_t>(static_cast<std::intptr_t>(c.timer));
  return 0;
}

int set_timer(timer_t timer, int flags, const itimerspec* value, itimerspec* old) noexcept {
  if (!value) return answer(-EINVAL);
  Call c{};
  c.number = SYS_timer_settime;
  c.flags = flags;
  c.value = *value;
  const long result = call_for(timer, c);
  if (!failed(result) && old) *old = c.old;
  return answer(result);
}

int get_timer(timer_t timer, itimerspec* value) noexcept {
  Call c{};
  c.number = SYS_timer_gettime;
  const long result = call_for(timer, c);
  if (!failed(result)) *value = c.value;
  return answer(result);
}

int timer_overrun(timer_t timer) noexcept {
  Call c{};
  c.number = SYS_timer_getoverrun;
  return answer(call_for(timer, c));
}

int delete_timer(timer_t timer) noexcept {
  Call c{};
  c.number = SYS_timer_delete;
  for (Notice& n : notices)  // first: the number may be another timer's at once
    if (int number = number_of(timer); n.in_use.load() && n.timer.compare_exchange_strong(number, -1)) let_go(n);
  return answer(call_for(timer, c));
}

int set_interval_timer(__itimer_which_t which, const itimerval* value, itimerval* old) noexcept {
  if (which != ITIMER_REAL) return answer(raw_syscall(SYS_setitimer, which, as_long(value), as_long(old)));
  Interval i{};
  i.number = SYS_setitimer;
  i.sets = value;
  if (value) i.value = *value;
  const long result = in_leader(&make_interval_call, i);
  if (!failed(result) && old) *old = i.old;
  return answer(result);
}

int get_interval_timer(__itimer_which_t which, itimerval* value) noexcept {
  if (which != ITIMER_REAL) return answer(raw_syscall(SYS_getitimer, which, as_long(value)));
  Interval i{};
  i.number = SYS_getitimer;
  const long result = in_leader(&make_interval_call, i);
  if (!failed(result)) *value = i.old;
  return answer(result);
}

unsigned set_alarm(unsigned seconds) noexcept {
  Interval i{};
  i.number = SYS_alarm;
  i.seconds = static_cast<long>(seconds);
  return static_cast<unsigned>(in_leader(&make_interval_call, i));
}

void timer_has_expired(const siginfo_t& info) noexcept {
  const auto mark = static_cast<std::uint32_t>(info.si_value.sival_int);
  Notice& n = notices[mark % kNoticesMax];
  std::uint64_t expired = n.expired.load();
  do
    if ((expired / kLife ^ mark >> kLifeShift) & (~0u >> kLifeShift)) return;
  while (!n.expired.compare_exchange_weak(expired, expired + 1));
  news.fetch_add(1);
  futex_wake(&news, 1);
}

void forget_timers() noexcept {
  has_notifier.store(false);
  for (Notice& n : notices) let_go(n);
}

}  // namespace mortise::isolate
