// children.hpp: which processes the program has started, whoever of its threads did, and sleeping until one of them ends.
#pragma once

#include <poll.h>

namespace mortise::isolate {

/// Descriptors of processes, which tell of their ends. They are closed by close(), also where a sleep is cancelled.
class Ends {
 public:
  /// One process more. When as many are known as there is room for: whether it has ended is asked now.
  void add(int pid) noexcept;

  /// The children of every thread; of one process group, if that is not 0.
  void add_children(int group) noexcept;

  /// Whether there is any.
  explicit operator bool() const noexcept { return any_; }

  /// Sleeps until one has ended, for `milliseconds` at most (a negative number: for ever). Its id, 0, or -EINTR where a handler ended
  /// the call. A point of cancellation, if it may sleep.
  int wait(int milliseconds);

  void close() noexcept;

 private:
  static constexpr int kMost = 64;
  pollfd descriptors_[kMost];
  int pids_[kMost];
  int count_ = 0;
  int ended_ = 0;  // of those there was no room for
  bool any_ = false;
};

}  // namespace mortise::isolate
