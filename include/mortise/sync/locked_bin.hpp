// A bin of free blocks under a lock: what the lock-free one is compared with, and right where its two-word exchange is not to be had
//
//   lock ── first ──▶ [block] ──▶ [block] ──▶ null
//
// Progress: as `Sync`. Placement: the Sync slot of SegregatedFit. A block's first word is the link.
#pragma once

#include "mortise/sync/fork_attempt.hpp"
#include "mortise/sync/free_link.hpp"
#include "mortise/sync/futex_lock.hpp"
#include "mortise/sync/sync.hpp"

namespace mortise {

/// All zero is a valid empty bin. Every operation is O(1).
/// `Sync`: the lock of the list.
template <Lock Sync = FutexLock> class LockedBin {
 public:
  static constexpr const char* kName = "LockedBin";
  static constexpr Guarantee kGuarantee = Sync::kGuarantee;
  static constexpr bool kReadsTakenBlocks = false;

  /// Takes over the blocks from `first` to `last`, linked through `next`.
  void push_chain(FreeLink* first, FreeLink* last) noexcept {
    Held held(lock_);
    last->next.store(first_, Order::relaxed);
    first_ = first;
  }
  void push(FreeLink* link) noexcept { push_chain(link, link); }

  /// The block pushed last, or null. The caller owns it.
  FreeLink* pop() noexcept {
    Held held(lock_);
    FreeLink* const top = first_;
    if (top) first_ = top->next.load(Order::relaxed);
    return top;
  }
  /// All blocks, linked newest first, or null. The caller owns them.
  FreeLink* steal_all() noexcept {
    Held held(lock_);
    FreeLink* const all = first_;
    first_ = nullptr;
    return all;
  }

  /// For fork.
  void close() noexcept { hold(lock_); }
  void open() noexcept { let_go(lock_); }
  void reset() noexcept { lock_.reset(); }

 private:
  Sync lock_;
  FreeLink* first_ = nullptr;
};

}  // namespace mortise
