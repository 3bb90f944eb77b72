// semaphore.cpp: counting semaphores.
//
//   32 bytes:  | value 31..0 | sleepers 63..32 | ... |     one 64-bit word, so a post learns of sleepers in the same step
//                                                          and never touches the semaphore again
#include "semaphore.hpp"

#include <cerrno>
#include <climits>
#include <pthread.h>

#include "cancel.hpp"
#include "lock.hpp"
#include "mutex.hpp"
#include "raw.hpp"

namespace mortise::isolate {
namespace {

constexpr std::uint64_t kSleeper = 1ull << 32, kValue = kSleeper - 1;

std::uint64_t& word_of(sem_t* s) noexcept { return *reinterpret_cast<std::uint64_t*>(s); }

bool take(std::uint64_t& word, std::uint64_t also) noexcept {
  std::uint64_t seen = shared(word).load(std::memory_order_relaxed);
  while (seen & kValue)
    if (shared(word).compare_exchange_weak(seen, seen - 1 - also, std::memory_order_acquire)) return true;
  return false;
}

int fail(int error) noexcept { return errno = error, -1; }

int wait_until(sem_t* s, clockid_t clock, const timespec* deadline) {
  std::uint64_t& word = word_of(s);
  pthread_testcancel();
  if (take(word, 0)) return 0;
  if (deadline && !valid(*deadline)) return fail(EINVAL);
  shared(word).fetch_add(kSleeper);
  for (;;) {
    if (take(word, kSleeper)) return 0;
    const long slept = cancellable_wait(&word, 0, deadline, clock);  // little-endian: the value is the low half
    if (slept == -ETIMEDOUT || slept == -EINTR || slept == -ECANCELED) {
      shared(word).fetch_sub(kSleeper);
      pthread_testcancel();
      return fail(static_cast<int>(-slept));
    }
  }
}

}  // namespace

int wait_semaphore(sem_t* s) { return wait_until(s, CLOCK_MONOTONIC, nullptr); }
int try_wait_semaphore(sem_t* s) noexcept { return take(word_of(s), 0) ? 0 : fail(EAGAIN); }
int timed_wait_semaphore(sem_t* s, const timespec* deadline) { return wait_until(s, CLOCK_REALTIME, deadline); }
int clock_wait_semaphore(sem_t* s, clockid_t clock, const timespec* deadline) {
  if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC) return fail(EINVAL);
  return wait_until(s, clock, deadline);
}

int post_semaphore(sem_t* s) noexcept {
  std::uint64_t& word = word_of(s);
  std::uint64_t seen = shared(word).load(std::memory_order_relaxed);
  do
    if ((seen & kValue) == INT_MAX) return fail(EOVERFLOW);
  while (!shared(word).compare_exchange_weak(seen, seen + 1, std::memory_order_release));
  if (seen >= kSleeper) futex_wake(&word, 1);
  return 0;
}

}  // namespace mortise::isolate
