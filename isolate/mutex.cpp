// mutex.cpp: plain, recursive, error-checking and adaptive mutexes.
//
// Fast path: one compare-and-swap and two plain stores, as in glibc. Slow path: the word is set to 2 ("someone may
// sleep") before each sleep, so a release after it always wakes. Source: [Drepper11] mutex 2.
#include "mutex.hpp"

#include <cerrno>

#include "lock.hpp"
#include "raw.hpp"
#include "thread.hpp"

namespace mortise::isolate {
namespace {

/// Adds a wait to what --watch tells of the thread.
class CountedWait {
 public:
  CountedWait() noexcept { clock_gettime(CLOCK_MONOTONIC, &begin_); }
  ~CountedWait() {
    if (!self) return;
    timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    ++self->counts.lock_waits;
    const std::int64_t ns = (end.tv_sec - begin_.tv_sec) * 1'000'000'000 + end.tv_nsec - begin_.tv_nsec;
    self->counts.lock_wait_ns += static_cast<std::uint64_t>(ns);
  }

 private:
  timespec begin_;
};

bool take(MutexBytes& m) noexcept {
  int free = 0;
  return shared(m.lock).compare_exchange_strong(free, 1, std::memory_order_acquire, std::memory_order_relaxed);
}

/// Waits until the word could be taken. 0, ETIMEDOUT or EINVAL.
__attribute__((noinline)) int wait_and_take(MutexBytes& m, Patience patience) noexcept {
  const CountedWait counted;
  while (shared(m.lock).exchange(2, std::memory_order_acquire) != 0) {
    if (patience.deadline && !valid(*patience.deadline)) return EINVAL;
    if (futex_wait(&m.lock, 2, patience.deadline, patience.clock) == -ETIMEDOUT) return ETIMEDOUT;
  }
  return 0;
}

void own(MutexBytes& m) noexcept {
  m.owner = owner_id();
  ++m.users;
}

int lock_with(MutexBytes& m, Patience patience) noexcept {
  const int kind = m.kind;
  if (kind & (kRobust | kInherit | kProtect)) [[unlikely]]
    return lock_special(m, patience);
  const int type = kind & kTypeMask;
  if ((type == kRecursive || type == kErrorCheck) && shared(m.owner).load(std::memory_order_relaxed) == owner_id()) {
    if (type == kErrorCheck) return patience.none ? EBUSY : EDEADLK;
    if (m.count + 1 == 0) return EAGAIN;
    ++m.count;
    return 0;
  }
  if (!take(m)) [[unlikely]] {
    if (patience.none) return EBUSY;
    if (const int error = wait_and_take(m, patience)) return error;
  }
  if (type == kRecursive) m.count = 1;
  own(m);
  return 0;
}

MutexBytes& bytes_of(pthread_mutex_t* m) noexcept { return *reinterpret_cast<MutexBytes*>(m); }

}  // namespace

int owner_id() noexcept { return self ? self->pid.load(std::memory_order_relaxed) : raw_gettid(); }

int lock_mutex(pthread_mutex_t* p) noexcept {
  MutexBytes& m = bytes_of(p);
  if ((m.kind & (kTypeMask | kRobust | kInherit | kProtect)) == kNormal && take(m)) [[likely]]
    return own(m), 0;
  return lock_with(m, {});
}

int try_lock_mutex(pthread_mutex_t* p) noexcept { return lock_with(bytes_of(p), {.none = true}); }

int timed_lock_mutex(pthread_mutex_t* p, const timespec* deadline) noexcept {
  return lock_with(bytes_of(p), {.deadline = deadline, .clock = CLOCK_REALTIME});
}

int clock_lock_mutex(pthread_mutex_t* p, clockid_t clock, const timespec* deadline) noexcept {
  if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC) return EINVAL;
  return lock_with(bytes_of(p), {.deadline = deadline, .clock = clock});
}

int unlock_mutex(pthread_mutex_t* p) noexcept {
  MutexBytes& m = bytes_of(p);
  const int kind = m.kind;
  if (kind & (kRobust | kInherit | kProtect)) [[unlikely]]
    return unlock_special(m);
  const int type = kind & kTypeMask;
  if (type == kRecursive || type == kErrorCheck) {
    if (m.owner != owner_id() || m.lock == 0) return EPERM;
    if (type == kRecursive && --m.count != 0) return 0;
  }
  m.owner = 0;
  --m.users;
  // The mutex may be freed by the next owner as soon as the word is 0: nothing of it is read afterwards.
  if (shared(m.lock).exchange(0, std::memory_order_release) == 2) [[unlikely]]
    futex_wake(&m.lock, 1);
  return 0;
}

}  // namespace mortise::isolate
