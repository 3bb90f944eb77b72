// lock.hpp: the runtime's own small lock, and words that several address spaces touch.
//
// Every variable of this library becomes shared memory when the runtime arms, so a plain static `Lock` excludes threads
// of all address spaces.
#pragma once

#include <atomic>

#include "raw.hpp"

namespace mortise::isolate {

template <class T>
std::atomic_ref<T> shared(T& word) noexcept {
  return std::atomic_ref<T>(word);
}

/// 0 free, 1 held, 2 held and somebody may sleep. Blocking; usable from any thread of the program.
class Lock {
 public:
  void acquire() noexcept {
    std::uint32_t seen = 0;
    if (word_.compare_exchange_strong(seen, 1, std::memory_order_acquire)) return;
    while (word_.exchange(2, std::memory_order_acquire) != 0) futex_wait(&word_, 2);
  }
  void release() noexcept {
    if (word_.exchange(0, std::memory_order_release) == 2) futex_wake(&word_, 1);
  }
  bool try_acquire() noexcept {
    std::uint32_t seen = 0;
    return word_.compare_exchange_strong(seen, 1, std::memory_order_acquire);
  }
  /// For the child of a fork, whose copy may show the lock held by a thread that it does not have.
  void reset() noexcept { word_.store(0, std::memory_order_relaxed); }

 private:
  std::atomic<std::uint32_t> word_{0};
};

class Held {
 public:
  explicit Held(Lock& lock) noexcept : lock_(lock) { lock_.acquire(); }
  ~Held() { lock_.release(); }
  Held(const Held&) = delete;

 private:
  Lock& lock_;
};

}  // namespace mortise::isolate
