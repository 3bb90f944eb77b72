// How fork takes the locks of a heap so that it can go back: all of them, or none after a while.
//
//   lock_all():     hold(a) ──► hold(b) ──► hold(c) ──► hold(d)           c is with somebody who does not go on, who may be stopped by a
//                    taken       taken       gives up    does nothing     signal: from there on nothing is taken
//   unlock_all():   let_go(a) ◄── let_go(b) ◄── let_go(c) ◄── let_go(d)   in the opposite order: nothing is opened before c has gone by
//                    opened        opened        nothing       nothing
//
// Outside of an attempt, and for all threads but the one that makes it, they are lock() and unlock().
// Placement: every lock that a layer's lock_all takes. A lock without `lock_within` is waited for all the same.
#pragma once

#include "mortise/os/calling_thread.hpp"
#include "mortise/sync/atomics.hpp"
#include "mortise/sync/sync.hpp"

namespace mortise {

/// While it lives, the thread that made it gives up what it would wait for too long in lock_all. One at a time: whoever makes it sees to
/// that. To go back, unlock_all is called before it ends.
class ForkAttempt {
 public:
  /// `naps`: for so long it waits for each lock, a fraction of a millisecond each.
  explicit ForkAttempt(unsigned naps) noexcept {
    naps_ = naps;
    failed_ = nullptr;
    thread_.store(os::calling_thread(), Order::relaxed);
  }
  ForkAttempt(const ForkAttempt&) = delete;
  ForkAttempt& operator=(const ForkAttempt&) = delete;
  ~ForkAttempt() { thread_.store(nullptr, Order::relaxed); }

  /// Until unlock_all has come by.
  bool has_failed() const noexcept { return failed_ != nullptr; }

  /// One attempt behind a lock that sees to it that it is alone, and is held afterwards where all is had, otherwise opened.
  template <Lock Gate, class HoldAll, class LetAllGo>
  static bool take_all(Gate& gate, unsigned naps, HoldAll hold_all, LetAllGo let_all_go) noexcept {
    if (!gate.lock_within(naps)) return false;
    bool has_all;
    {
      const ForkAttempt attempt(naps);
      hold_all();
      has_all = !attempt.has_failed();
      if (!has_all) let_all_go();
    }
    if (!has_all) gate.unlock();  // only now: with it the next one begins, which this one's end would end
    return has_all;
  }

  template <Lock L> static bool take(L& lock) noexcept {
    if (is_callers()) {
      if (failed_) return false;
      if constexpr (requires { lock.lock_within(naps_); }) {
        if (lock.lock_within(naps_)) return true;
        failed_ = &lock;
        return false;
      }
    }
    lock.lock();
    return true;
  }
  template <Lock L> static void open(L& lock) noexcept {
    if (!is_callers() || !failed_) return lock.unlock();
    if (failed_ == &lock) failed_ = nullptr;
  }

 private:
  // Relaxed: a thread finds itself there only if it has put itself there.
  static bool is_callers() noexcept {
    const void* const thread = thread_.load(Order::relaxed);
    return thread && thread == os::calling_thread();
  }

  [[gnu::visibility("hidden")]] static inline constinit Atomic<const void*> thread_{nullptr};
  // Its own.
  [[gnu::visibility("hidden")]] static inline constinit Shared<const void*> failed_{nullptr};
  [[gnu::visibility("hidden")]] static inline constinit Shared<unsigned> naps_{0};
};

/// False where nothing was taken, and what the lock guards must not be looked at.
template <Lock L> MORTISE_COLD bool hold(L& lock) noexcept { return ForkAttempt::take(lock); }
template <Lock L> MORTISE_COLD void let_go(L& lock) noexcept { ForkAttempt::open(lock); }

}  // namespace mortise
