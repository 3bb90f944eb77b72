// mutex.hpp: mutexes in glibc's own bytes.
//
//   struct __pthread_mutex_s, 40 bytes, low to high
//   | lock | count | owner | users | kind | spins, elision | list.prev | list.next |
//     0      4       8       12      16     20               24          32
//
// `lock` is 0, 1, or 2 with sleepers - for plain, recursive, error-checking and adaptive mutexes. A mutex that main
// held when the runtime armed reads the same, so it can be released afterwards; static initialisers work as they are.
#pragma once

#include <ctime>
#include <pthread.h>

namespace mortise::isolate {

struct MutexBytes {
  int lock;
  unsigned count;
  int owner;
  unsigned users;
  int kind;
  int spins;
  void* list_prev;
  void* list_next;
};
static_assert(sizeof(MutexBytes) == sizeof(pthread_mutex_t), "glibc's mutex has 40 bytes");

enum MutexKind {
  kNormal = 0,
  kRecursive = 1,
  kErrorCheck = 2,
  kAdaptive = 3,
  kTypeMask = 3,
  kRobust = 16,
  kInherit = 32,
  kProtect = 64
};

int lock_mutex(pthread_mutex_t* m) noexcept;
int try_lock_mutex(pthread_mutex_t* m) noexcept;
int timed_lock_mutex(pthread_mutex_t* m, const timespec* deadline) noexcept;
int clock_lock_mutex(pthread_mutex_t* m, clockid_t clock, const timespec* deadline) noexcept;
int unlock_mutex(pthread_mutex_t* m) noexcept;

/// How long a lock may be waited for: not at all, until a deadline, or for ever.
struct Patience {
  bool none = false;
  const timespec* deadline = nullptr;
  clockid_t clock = CLOCK_REALTIME;
};
inline bool valid(const timespec& t) noexcept { return t.tv_nsec >= 0 && t.tv_nsec < 1'000'000'000; }

/// The kernel's id of the calling thread: the owner written into mutexes.
int owner_id() noexcept;

/// robust_mutex.cpp: kinds with kRobust, kInherit or kProtect, whose lock word holds more than three values.
int lock_special(MutexBytes& m, Patience patience) noexcept;
int unlock_special(MutexBytes& m) noexcept;

}  // namespace mortise::isolate
