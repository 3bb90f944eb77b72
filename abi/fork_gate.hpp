// What a fork goes through with the locks that its handlers take, and leaves when they are open again.
//
// Signals wait: one that came amid the fork, as that of a child which ends at once, would find the locks in its own thread's hands, and a
// handler may fork. But who waits for another thread lets its own signals come: whoever stops all threads by signals (a garbage collector)
// may have stopped the other one amid a malloc already, and lets it go on only when this one has stopped as well. So nothing is held by who
// waits for long: all locks are had within a moment, or none, and then signals come before the next attempt.
//
// And glibc's lock of the list of open streams comes first. Its own fork takes it after our handlers, but whoever has it may wait for the
// lock of a stream (fflush(nullptr)), and whoever has that one for malloc (getline). It cannot be tried: signals come meanwhile.
//
// Where we were opened when the program ran already, handlers of its own run within ours: for them signals and streams are as it left them.
#pragma once

#include <cstdint>

#include "abi/signals.hpp"
#include "mortise/sync/fork_attempt.hpp"
#include "mortise/sync/futex_lock.hpp"

#ifdef __GLIBC__
#include <sys/single_threaded.h>

extern "C" {
void _IO_list_lock() noexcept;
void _IO_list_unlock() noexcept;
void _IO_list_resetlock() noexcept;
}
#endif

namespace mortise::abi {

/// The locks of what stands on the heap in its library, for fork: taken before the heap's, by hold(), and opened after them. One pair of
/// handlers for both: signals wait until all are open. Weak: an allocator has nothing there.
[[gnu::weak, gnu::visibility("hidden")]] void lock_above() noexcept;
[[gnu::weak, gnu::visibility("hidden")]] void unlock_above() noexcept;
[[gnu::weak, gnu::visibility("hidden")]] void reset_above() noexcept;

class ForkGate {
 public:
  /// Once, before a fork.
  void come_late() noexcept { is_late_ = true; }

  /// `hold_all` takes the heap's locks by hold(), `let_all_go` gives them back, those that it has.
  template <class HoldAll, class LetAllGo> void lock(HoldAll hold_all, LetAllGo let_all_go) noexcept {
    if (is_late_) return hold_all();
    for (unsigned naps = kNapsMin; !lock_within(naps, hold_all, let_all_go);) naps = naps < kNapsMax ? naps * 2 : kNapsMax;
  }
  void unlock() noexcept {
    if (is_late_) return;
    const std::uint64_t signals = signals_;
    const bool has_streams = has_streams_;
    lock_.unlock();
    if (has_streams) unlock_streams();
    set_signals(signals);
  }
  /// In the child. There glibc has made its lock new before our handlers run, unless the first thread came amid the fork.
  void reset() noexcept {
    if (is_late_) return;
    lock_.reset();
    if (has_streams_) reset_streams();
    set_signals(signals_);
  }

 private:
  /// By which a program that hangs is ended: behind the locks of what stands on the heap, fork may wait for the program's own malloc.
  static constexpr std::uint64_t kByHand = bit(SIGINT) | bit(SIGTERM) | bit(SIGHUP) | bit(SIGQUIT);
  /// Longer from time to time: on a busy machine whoever has a lock may be off its core for a while.
  static constexpr unsigned kNapsMin = 4, kNapsMax = 256;

  template <class HoldAll, class LetAllGo> bool lock_within(unsigned naps, HoldAll hold_all, LetAllGo let_all_go) noexcept {
    const bool has_streams = lock_streams();
    const std::uint64_t signals = block_signals(~(kNeverBlocked | (lock_above ? kByHand : 0)));
    if (ForkAttempt::take_all(lock_, naps, hold_all, let_all_go)) {
      signals_ = signals;
      has_streams_ = has_streams;
      return true;
    }
    if (has_streams) unlock_streams();
    set_signals(signals);
    return false;
  }

#ifdef __GLIBC__
  /// Where there is one thread glibc leaves it alone, and so do we: the fork may be that of a handler which has interrupted its holder.
  static bool lock_streams() noexcept {
    if (__libc_single_threaded) return false;
    _IO_list_lock();
    return true;
  }
  static void unlock_streams() noexcept { _IO_list_unlock(); }
  static void reset_streams() noexcept { _IO_list_resetlock(); }
#else
  static bool lock_streams() noexcept { return false; }
  static void unlock_streams() noexcept {}
  static void reset_streams() noexcept {}
#endif

  FutexLock lock_{};
  std::uint64_t signals_ = 0;
  bool has_streams_ = false, is_late_ = false;
};

}  // namespace mortise::abi
