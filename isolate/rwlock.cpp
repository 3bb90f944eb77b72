// rwlock.cpp: read-write locks.
//
//   56 bytes:  | state | writers waiting | ... | writer's id | ... | preference |
//                0       4                       24                  48
//   state:     | readers 31..3 | someone sleeps 2 | written 1 | (glibc's phase, kept) 0 |
//
// The state word means the same as in glibc while nobody waits, so a lock taken before the runtime armed is released
// correctly after it. Everybody sleeps on the state word; whoever makes it free wakes all. Readers are preferred unless
// the lock was made with PREFER_WRITER_NONRECURSIVE.
#include "rwlock.hpp"

#include <cerrno>

#include "lock.hpp"
#include "mutex.hpp"
#include "raw.hpp"

namespace mortise::isolate {
namespace {

struct RwlockBytes {
  std::uint32_t state;
  std::uint32_t writers_waiting;
  std::uint32_t unused[4];
  int writer;
  std::uint32_t unused2[5];
  std::uint32_t preference;
  std::uint32_t unused3;
};
static_assert(sizeof(RwlockBytes) == sizeof(pthread_rwlock_t) && offsetof(RwlockBytes, writer) == 24 &&
              offsetof(RwlockBytes, preference) == 48);

constexpr std::uint32_t kWritten = 2, kSleepers = 4, kReader = 8, kReadersMax = ~0u / kReader;

RwlockBytes& bytes_of(pthread_rwlock_t* l) noexcept { return *reinterpret_cast<RwlockBytes*>(l); }

bool readable(RwlockBytes& l, std::uint32_t state) noexcept {
  if (state & kWritten) return false;
  return l.preference != PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP || shared(l.writers_waiting).load() == 0;
}
bool writable(std::uint32_t state) noexcept { return (state & kWritten) == 0 && state < kReader; }

/// Sleeps until the state changes from `seen`. 0 or an error number.
int sleep_on(RwlockBytes& l, std::uint32_t seen, const Patience& patience) noexcept {
  if (patience.none) return EBUSY;
  if (patience.deadline && !valid(*patience.deadline)) return EINVAL;
  if (!(seen & kSleepers) && !shared(l.state).compare_exchange_strong(seen, seen | kSleepers)) return 0;
  return futex_wait(&l.state, seen | kSleepers, patience.deadline, patience.clock) == -ETIMEDOUT ? ETIMEDOUT : 0;
}

int lock_for_reading(RwlockBytes& l, const Patience& patience) noexcept {
  for (;;) {
    std::uint32_t seen = shared(l.state).load(std::memory_order_relaxed);
    if (readable(l, seen)) {
      if (seen / kReader == kReadersMax) return EAGAIN;
      if (shared(l.state).compare_exchange_weak(seen, seen + kReader, std::memory_order_acquire)) return 0;
      continue;
    }
    if ((seen & kWritten) && shared(l.writer).load() == owner_id()) return patience.none ? EBUSY : EDEADLK;
    if (const int error = sleep_on(l, seen, patience)) return error;
  }
}

int lock_for_writing(RwlockBytes& l, const Patience& patience) noexcept {
  bool waiting = false;
  int error = 0;
  for (;;) {
    std::uint32_t seen = shared(l.state).load(std::memory_order_relaxed);
    if (writable(seen)) {
      if (shared(l.state).compare_exchange_weak(seen, seen | kWritten, std::memory_order_acquire)) break;
      continue;
    }
    if ((seen & kWritten) && shared(l.writer).load() == owner_id()) error = patience.none ? EBUSY : EDEADLK;
    if (!waiting && !patience.none) shared(l.writers_waiting).fetch_add(1), waiting = true;
    if (!error) error = sleep_on(l, seen, patience);
    if (error) break;
  }
  if (waiting && shared(l.writers_waiting).fetch_sub(1) == 1 && error)
    futex_wake(&l.state, kEveryone);  // readers held back
  if (error == 0) shared(l.writer).store(owner_id());
  return error;
}

bool known(clockid_t clock) noexcept { return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC; }

}  // namespace

int read_lock(pthread_rwlock_t* l) noexcept { return lock_for_reading(bytes_of(l), {}); }
int try_read_lock(pthread_rwlock_t* l) noexcept { return lock_for_reading(bytes_of(l), {.none = true}); }
int timed_read_lock(pthread_rwlock_t* l, const timespec* deadline) noexcept {
  return lock_for_reading(bytes_of(l), {.deadline = deadline});
}
int clock_read_lock(pthread_rwlock_t* l, clockid_t clock, const timespec* deadline) noexcept {
  return known(clock) ? lock_for_reading(bytes_of(l), {.deadline = deadline, .clock = clock}) : EINVAL;
}
int write_lock(pthread_rwlock_t* l) noexcept { return lock_for_writing(bytes_of(l), {}); }
int try_write_lock(pthread_rwlock_t* l) noexcept { return lock_for_writing(bytes_of(l), {.none = true}); }
int timed_write_lock(pthread_rwlock_t* l, const timespec* deadline) noexcept {
  return lock_for_writing(bytes_of(l), {.deadline = deadline});
}
int clock_write_lock(pthread_rwlock_t* l, clockid_t clock, const timespec* deadline) noexcept {
  return known(clock) ? lock_for_writing(bytes_of(l), {.deadline = deadline, .clock = clock}) : EINVAL;
}

int unlock_rwlock(pthread_rwlock_t* p) noexcept {
  RwlockBytes& l = bytes_of(p);
  std::uint32_t seen = shared(l.state).load(std::memory_order_relaxed), after;
  if (seen & kWritten) shared(l.writer).store(0);
  else if (seen < kReader) return EPERM;
  do {
    after = seen & kWritten ? seen & ~kWritten : seen - kReader;
    if (writable(after)) after &= ~kSleepers;  // all are woken; those that must sleep again say so again
  } while (!shared(l.state).compare_exchange_weak(seen, after, std::memory_order_release));
  if (writable(after) && (seen & kSleepers)) futex_wake(&l.state, kEveryone);
  return 0;
}

}  // namespace mortise::isolate
