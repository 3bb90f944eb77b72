// A layer with one lock: how fork takes it, once for all of them.
//
//   fork: lock_all()  ── mine, then below's ──►  (the child is made)  ◄── below's, then mine ──  unlock_all()
//                                                 └─ child: reset_after_fork(), since whoever held a lock may not exist there
//
// Progress: as `Sync`. Placement: the base of a layer whose state lies under one lock, instead of Passthrough.
#pragma once

#include "mortise/core/core.hpp"
#include "mortise/sync/fork_attempt.hpp"
#include "mortise/sync/sync.hpp"

namespace mortise {

/// Passthrough with a lock, taken before those below: lock order is stack order.
template <Heap Below, Lock Sync> class Locked : public Passthrough<Below> {
 public:
  void lock_all() noexcept {
    hold(lock_);
    lock_below(this->below);
  }
  void unlock_all() noexcept {
    unlock_below(this->below);
    let_go(lock_);
  }
  void reset_after_fork() noexcept {
    lock_.reset();
    reset_below(this->below);
  }

 protected:
  Sync lock_;
};

}  // namespace mortise
