// quiet.hpp: locks that a signal handler may want as well.
//
// Where a handler comes to a lock that its own thread holds, the thread waits for itself; where it jumps out of itself or waits for
// others, nobody gets the lock. So no handler of the program runs while such a lock is held. Locks that a task of a rendezvous takes
// keep the rendezvous out, too; nothing is published under them.
#pragma once

#include "lock.hpp"
#include "signals.hpp"
#include "unbroken.hpp"

namespace mortise::isolate {

/// Holds a lock; no signal is handled here meanwhile, the runtime's own included.
class Quiet {
 public:
  explicit Quiet(Lock& lock) noexcept : held_(lock) {}

 private:
  NoSignals signals_;  // let in again after the lock is released
  Held held_;
};

/// Holds a lock of everyday calls, which no task of a rendezvous takes: without a system call. Handlers of the program run afterwards.
class Brief {
 public:
  explicit Brief(Lock& lock) noexcept : held_(lock) {}

 private:
  Unbroken unbroken_;  // ends after the lock is released
  Held held_;
};

/// Holds a lock under which something is published, or waits for one: this thread answers the rendezvous of others, and no handler of
/// the program runs here.
class Answering {
 public:
  explicit Answering(Lock& lock) noexcept : mask_(block_program_signals()), lock_(lock) { lock_.acquire(); }
  ~Answering() {
    lock_.release();
    restore_signals(mask_);
  }
  Answering(const Answering&) = delete;

 private:
  std::uint64_t mask_;
  Lock& lock_;
};

}  // namespace mortise::isolate
