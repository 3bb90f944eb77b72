// A thread that is not to reach others through the kernel: a filter of system calls may end the program for that (membarrier).
#pragma once

#include "mortise/os/calling_thread.hpp"
#include "mortise/os/isolation.hpp"

namespace mortise::os {

/// While it lives, the thread that made it does as if the system refused to restart or to order other threads. One at a time: false for
/// who comes second.
class Restraint {
 public:
  Restraint() noexcept {
    const void* nobody = nullptr;
    is_on_ = __atomic_compare_exchange_n(&thread_, &nobody, calling_thread(), false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  }
  Restraint(const Restraint&) = delete;
  Restraint& operator=(const Restraint&) = delete;
  ~Restraint() {
    if (is_on_) set(nullptr);
  }
  explicit operator bool() const noexcept { return is_on_; }
  static bool is_on_caller() noexcept { return __atomic_load_n(&thread_, __ATOMIC_RELAXED) == calling_thread(); }
  /// In the child of a fork: another thread's has gone with it.
  static void reset_after_fork() noexcept {
    if (!is_on_caller()) set(nullptr);
  }

 private:
  static void set(const void* thread) noexcept { __atomic_store_n(&thread_, thread, __ATOMIC_RELAXED); }
  [[gnu::visibility("hidden")]] static inline const void* thread_ = nullptr;
  bool is_on_;
};

/// Whether the caller may ask the kernel to restart or to order all other threads, and that would be all of them.
inline bool may_reach_others() noexcept { return !may_be_isolated() && !Restraint::is_on_caller(); }

}  // namespace mortise::os
