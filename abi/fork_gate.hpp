// What a fork goes through before its handlers take the heap's locks, and leaves when they are open again.
//
// Signals wait: one that came amid the fork, as that of a child which ends at once, would find the locks in its own thread's hands, and a
// handler may fork. And glibc's lock of the list of open streams comes first. Its own fork takes it after our handlers, but whoever has it
// may wait for the lock of a stream (fflush(nullptr)), and whoever has that one for malloc (getline).
#pragma once

#include <cstdint>

#include "abi/signals.hpp"
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

class ForkGate {
 public:
  void lock() noexcept {
    const bool has_streams = lock_streams();  // first: a handler may free whom its holder waits for
    const std::uint64_t signals = block_signals(~(kNeverBlocked | kByHand));
    lock_.lock();
    signals_ = signals;
    has_streams_ = has_streams;
  }
  void unlock() noexcept {
    const std::uint64_t signals = signals_;
    const bool has_streams = has_streams_;
    lock_.unlock();
    if (has_streams) unlock_streams();
    set_signals(signals);
  }
  /// In the child. There glibc has made its lock new before our handlers run, unless the first thread came amid the fork.
  void reset() noexcept {
    lock_.reset();
    if (has_streams_) reset_streams();
    set_signals(signals_);
  }

 private:
  /// A handler that has interrupted a miss and forks waits for itself all the same: whoever sees that can end the program.
  static constexpr std::uint64_t kByHand = bit(SIGINT) | bit(SIGTERM) | bit(SIGHUP) | bit(SIGQUIT);

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
  bool has_streams_ = false;
};

}  // namespace mortise::abi
