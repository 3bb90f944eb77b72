// libc_locks.cpp: 0 free, 1 held, 2 held with sleepers - glibc's low-level lock, on shared futexes.
#include "libc_locks.hpp"

#include "lock.hpp"
#include "raw.hpp"

namespace mortise::isolate {

void libc_lock_wait(int* word) noexcept {
  if (shared(*word).load(std::memory_order_relaxed) == 2) futex_wait(word, 2);
  while (shared(*word).exchange(2, std::memory_order_acquire) != 0) futex_wait(word, 2);
}

void libc_lock_wake(int* word) noexcept { futex_wake(word, 1); }

}  // namespace mortise::isolate
