// robust_mutex.cpp: mutexes whose word the kernel reads: robust ones (their holder may die) and those of priority protocols.
//
//   robust:    | waiters 31 | owner died 30 | kernel id of the owner 29..0 |   and each one held is on its owner's list,
//              which the kernel walks when the owner's process ends
//   inherit:   the same word; waiting and waking happen in the kernel (FUTEX_LOCK_PI), which lends the waiter's priority
//   protect:   | ceiling 31..19 | 0, 1 or 2 |; the ceiling is kept but the owner's priority is not raised
#include <cerrno>
#include <climits>

#include "lock.hpp"
#include "mutex.hpp"
#include "raw.hpp"
#include "thread.hpp"
#include "tls.hpp"

namespace mortise::isolate {
namespace {

constexpr int kInconsistent = INT_MAX, kNotRecoverable = INT_MAX - 1;  // glibc's values of `owner`
constexpr unsigned kWaiters = FUTEX_WAITERS, kDied = FUTEX_OWNER_DIED, kOwner = FUTEX_TID_MASK;
constexpr unsigned kCeilingShift = 19;

/// The list of robust mutexes the calling thread holds: links point at each mutex's `list_next`, the last at the head.
struct RobustHead {
  void* first;
  long futex_offset;
  void* pending;
};
RobustHead& robust_head() noexcept {
  return *static_cast<RobustHead*>(robust_head_of(reinterpret_cast<void*>(pthread_self())));
}

unsigned& word_of(MutexBytes& m) noexcept { return reinterpret_cast<unsigned&>(m.lock); }
void** link_of(MutexBytes& m) noexcept { return &m.list_next; }

void enlist(MutexBytes& m) noexcept {
  RobustHead& head = robust_head();
  m.list_next = head.first;
  m.list_prev = &head;
  static_cast<void**>(head.first)[-1] = link_of(m);  // each element's back pointer is the word before its link
  head.first = link_of(m);
}

void delist(MutexBytes& m) noexcept {
  static_cast<void**>(m.list_next)[-1] = m.list_prev;
  *static_cast<void**>(m.list_prev) = m.list_next;
  m.list_prev = m.list_next = nullptr;
}

int relock(MutexBytes& m, Patience patience) noexcept {
  if ((m.kind & kTypeMask) == kRecursive) {
    if (m.count + 1 == 0) return EAGAIN;
    ++m.count;
    return 0;
  }
  if ((m.kind & kTypeMask) == kErrorCheck) return EDEADLK;
  if (patience.none) return EBUSY;
  return -1;  // a plain mutex waits for itself, as asked
}

/// Takes the word of a robust mutex; the waiters bit is kept, and set by whoever has slept.
int take_robust(MutexBytes& m, Patience patience) noexcept {
  const unsigned me = static_cast<unsigned>(owner_id());
  unsigned waiters = 0;
  for (;;) {
    unsigned seen = shared(word_of(m)).load(std::memory_order_relaxed);
    if ((seen & kOwner) == 0 || (seen & kDied)) {
      const bool died = seen & kDied;
      if (!shared(word_of(m))
               .compare_exchange_strong(seen, me | waiters | (seen & kWaiters), std::memory_order_acquire))
        continue;
      return died ? EOWNERDEAD : 0;
    }
    if ((seen & kOwner) == me)
      if (const int answer = relock(m, patience); answer >= 0) return answer == 0 ? EALREADY : answer;
    if (patience.none) return EBUSY;
    if (patience.deadline && !valid(*patience.deadline)) return EINVAL;
    if (!(seen & kWaiters) && !shared(word_of(m)).compare_exchange_strong(seen, seen | kWaiters)) continue;
    if (futex_wait(&m.lock, seen | kWaiters, patience.deadline, patience.clock) == -ETIMEDOUT) return ETIMEDOUT;
    waiters = kWaiters;
  }
}

void drop_robust(MutexBytes& m) noexcept {
  RobustHead& head = robust_head();
  head.pending = link_of(m);
  delist(m);
  if (shared(word_of(m)).exchange(0, std::memory_order_release) & kWaiters) futex_wake(&m.lock, 1);
  head.pending = nullptr;
}

int lock_robust(MutexBytes& m, Patience patience) noexcept {
  RobustHead& head = robust_head();
  head.pending = link_of(m);
  int answer = take_robust(m, patience);
  if (answer == 0 || answer == EOWNERDEAD) {
    const bool lost = m.owner == kNotRecoverable;
    enlist(m);
    m.count = 1;
    if (answer == EOWNERDEAD) {
      m.owner = kInconsistent;  // until pthread_mutex_consistent(); the dead owner's use stays counted as ours
    } else {
      ++m.users;
      if (!lost) m.owner = owner_id();
    }
    if (lost) {
      --m.users;
      drop_robust(m);
      answer = ENOTRECOVERABLE;
    }
  }
  head.pending = nullptr;
  return answer == EALREADY ? 0 : answer;
}

int unlock_robust(MutexBytes& m) noexcept {
  if ((shared(word_of(m)).load() & kOwner) != static_cast<unsigned>(owner_id())) return EPERM;
  if ((m.kind & kTypeMask) == kRecursive && --m.count != 0) return 0;
  m.owner = m.owner == kInconsistent ? kNotRecoverable : 0;
  --m.users;
  drop_robust(m);
  return 0;
}

/// For a lock that nobody will release: the caller holds it, or its holder has ended. The kernel knows, a plain mutex does not tell.
int wait_in_vain(Patience patience) noexcept {
  static constexpr std::uint32_t kNever = 0;
  while (futex_wait(&kNever, kNever, patience.deadline, patience.clock) != -ETIMEDOUT) {
  }
  return ETIMEDOUT;
}

int lock_inherit(MutexBytes& m, Patience patience) noexcept {
  const unsigned me = static_cast<unsigned>(owner_id());
  unsigned seen = 0;
  if (!shared(word_of(m)).compare_exchange_strong(seen, me, std::memory_order_acquire)) {
    if ((seen & kOwner) == me)
      if (const int answer = relock(m, patience); answer >= 0) return answer;
    if (patience.none) return EBUSY;
    const int op = patience.deadline && patience.clock == CLOCK_MONOTONIC ? 13 /* FUTEX_LOCK_PI2 */ : FUTEX_LOCK_PI;
    long result;
    do result = raw_syscall(SYS_futex, as_long(&m.lock), op, 0, as_long(patience.deadline));
    while (result == -EINTR || result == -EAGAIN);
    if (result == -EDEADLK || result == -ESRCH) return wait_in_vain(patience);
    if (failed(result)) return static_cast<int>(-result);
  }
  m.count = 1;
  m.owner = static_cast<int>(me);
  ++m.users;
  return 0;
}

int unlock_inherit(MutexBytes& m) noexcept {
  unsigned me = static_cast<unsigned>(owner_id());
  if ((shared(word_of(m)).load() & kOwner) != me) return EPERM;
  if ((m.kind & kTypeMask) == kRecursive && --m.count != 0) return 0;
  m.owner = 0;
  --m.users;
  if (!shared(word_of(m)).compare_exchange_strong(me, 0, std::memory_order_release))
    raw_syscall(SYS_futex, as_long(&m.lock), FUTEX_UNLOCK_PI);
  return 0;
}

int lock_protect(MutexBytes& m, Patience patience) noexcept {
  if (shared(m.owner).load(std::memory_order_relaxed) == owner_id())
    if (const int answer = relock(m, patience); answer >= 0) return answer;
  const unsigned ceiling = shared(word_of(m)).load() >> kCeilingShift << kCeilingShift;
  unsigned seen = ceiling;
  if (!shared(word_of(m)).compare_exchange_strong(seen, ceiling | 1, std::memory_order_acquire)) {
    if (patience.none) return EBUSY;
    if (patience.deadline && !valid(*patience.deadline)) return EINVAL;
    while (shared(word_of(m)).exchange(ceiling | 2, std::memory_order_acquire) != ceiling)
      if (futex_wait(&m.lock, ceiling | 2, patience.deadline, patience.clock) == -ETIMEDOUT) return ETIMEDOUT;
  }
  m.count = 1;
  m.owner = owner_id();
  ++m.users;
  return 0;
}

int unlock_protect(MutexBytes& m) noexcept {
  if (m.owner != owner_id()) return EPERM;
  if ((m.kind & kTypeMask) == kRecursive && --m.count != 0) return 0;
  m.owner = 0;
  --m.users;
  const unsigned ceiling = shared(word_of(m)).load() >> kCeilingShift << kCeilingShift;
  if (shared(word_of(m)).exchange(ceiling, std::memory_order_release) == (ceiling | 2)) futex_wake(&m.lock, 1);
  return 0;
}

}  // namespace

int lock_special(MutexBytes& m, Patience patience) noexcept {
  if (m.kind & kRobust) return lock_robust(m, patience);
  return m.kind & kInherit ? lock_inherit(m, patience) : lock_protect(m, patience);
}

int unlock_special(MutexBytes& m) noexcept {
  if (m.kind & kRobust) return unlock_robust(m);
  return m.kind & kInherit ? unlock_inherit(m) : unlock_protect(m);
}

}  // namespace mortise::isolate
