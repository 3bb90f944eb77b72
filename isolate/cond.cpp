// cond.cpp: condition variables.
//
//   48 bytes:  | sequence | ... | waiters: count 31..3, destroying 2, monotonic clock 1, process-shared 0 | ... |
//                0                 36 (glibc's __wrefs, same meaning)
//
// wait:    count myself; read the sequence; release the mutex; sleep while the sequence is what I read; take the mutex.
// signal:  nobody counted: nothing to do. Otherwise advance the sequence, wake one (broadcast: all).
// A waiter that has not fallen asleep yet sees the advanced sequence; one that sleeps is woken in order of arrival.
// What a waiter may see beyond that is a spurious wake-up, which the interface allows.
#include "cond.hpp"

#include <cerrno>

#include "cancel.hpp"
#include "lock.hpp"
#include "mutex.hpp"
#include "raw.hpp"
#include "unwound.h"

namespace mortise::isolate {
namespace {

struct CondBytes {
  std::uint32_t sequence;
  std::uint32_t rest[8];
  std::uint32_t waiters;
  std::uint32_t tail[2];
};
static_assert(sizeof(CondBytes) == sizeof(pthread_cond_t) && offsetof(CondBytes, waiters) == 36);

constexpr std::uint32_t kWaiter = 8, kDestroying = 4, kMonotonic = 2;

CondBytes& bytes_of(pthread_cond_t* c) noexcept { return *reinterpret_cast<CondBytes*>(c); }

void leave(CondBytes& c) noexcept {
  const std::uint32_t before = shared(c.waiters).fetch_sub(kWaiter);
  if (before / kWaiter == 1 && (before & kDestroying)) futex_wake(&c.waiters, kEveryone);
}

struct Wait {
  CondBytes& c;
  pthread_mutex_t* m;
  std::uint32_t seen;
  clockid_t clock;
  const timespec* deadline;
};

/// A handler is no wake-up: glibc's callers are not used to it.
long sleep(void* argument) noexcept {
  const Wait& w = *static_cast<Wait*>(argument);
  long slept;
  do slept = cancellable_wait(&w.c.sequence, w.seen, w.deadline, w.clock);
  while (slept == -EINTR);
  return slept;
}

/// A handler has left the thread: clean-up functions expect the mutex held, and a signal is for another.
void unwind(void* argument) noexcept {
  const Wait& w = *static_cast<Wait*>(argument);
  if (shared(w.c.sequence).load() != w.seen) futex_wake(&w.c.sequence, 1);
  leave(w.c);
  lock_mutex(w.m);
}

int wait_until(CondBytes& c, pthread_mutex_t* m, clockid_t clock, const timespec* deadline) {
  if (deadline && !valid(*deadline)) return EINVAL;
  pthread_testcancel();
  shared(c.waiters).fetch_add(kWaiter);
  Wait wait{c, m, shared(c.sequence).load(), clock, deadline};
  if (const int error = unlock_mutex(m)) return leave(c), error;
  const long slept = mortise_isolate_call_unwound(&sleep, &unwind, &wait);
  leave(c);
  const int locked = lock_mutex(m);
  if (slept != 0) pthread_testcancel();  // with the mutex held, as clean-up handlers expect; who took a signal must not take it away
  if (locked != 0) return locked;
  return slept == -ETIMEDOUT ? ETIMEDOUT : 0;
}

void wake(CondBytes& c, int count) noexcept {
  if (shared(c.waiters).load() < kWaiter) return;
  shared(c.sequence).fetch_add(1);
  futex_wake(&c.sequence, count);
}

}  // namespace

int wait_cond(pthread_cond_t* c, pthread_mutex_t* m) { return wait_until(bytes_of(c), m, CLOCK_MONOTONIC, nullptr); }

int timed_wait_cond(pthread_cond_t* c, pthread_mutex_t* m, const timespec* deadline) {
  const bool monotonic = shared(bytes_of(c).waiters).load(std::memory_order_relaxed) & kMonotonic;
  return wait_until(bytes_of(c), m, monotonic ? CLOCK_MONOTONIC : CLOCK_REALTIME, deadline);
}

int clock_wait_cond(pthread_cond_t* c, pthread_mutex_t* m, clockid_t clock, const timespec* deadline) {
  if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC) return EINVAL;
  return wait_until(bytes_of(c), m, clock, deadline);
}

int signal_cond(pthread_cond_t* c) noexcept { return wake(bytes_of(c), 1), 0; }
int broadcast_cond(pthread_cond_t* c) noexcept { return wake(bytes_of(c), kEveryone), 0; }

int destroy_cond(pthread_cond_t* p) noexcept {
  CondBytes& c = bytes_of(p);
  shared(c.waiters).fetch_or(kDestroying);
  for (std::uint32_t seen; (seen = shared(c.waiters).load()) >= kWaiter;) futex_wait(&c.waiters, seen);
  return 0;
}

}  // namespace mortise::isolate
