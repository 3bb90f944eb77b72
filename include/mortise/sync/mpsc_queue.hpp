// A queue that any thread appends free blocks to and one thread takes them from: remote frees on their way home.
//
//   front ──▶ ┌──────┐     ┌──────┐     ┌──────┐ ◀── tail
//   (owner's) │ next─┼────▶│ next─┼────▶│ null │    (everybody's)
//             └──────┘     └──────┘     └──────┘
//
// 1. push_chain: the chain ends in null; exchange the tail for its last block; link the block that was the tail to its
//    first.
// 2. pop (owner only): the front, if something is linked behind it. The last block cannot go while the tail points to it:
//    then the queue's own stub is pushed behind it.
//
// Between its two steps a pusher hides what is appended behind it: pop says null although blocks are there. It never
// waits, and nothing is lost: they appear when the pusher goes on. A pusher that is stopped there for ever keeps them.
// After pop has returned a block nobody else touches it, so it may be unmapped or reused at once.
//
// Progress: push_chain wait-free, one exchange and two stores; pop wait-free.
// Placement: above any source. A block's first word is the link.  Source: [Vyukov10] intrusive MPSC queue.
#pragma once

#include "mortise/core/progress.hpp"
#include "mortise/sync/atomics.hpp"
#include "mortise/sync/free_link.hpp"

namespace mortise {

/// All zero is a valid empty queue. Not movable: blocks point to its stub.
class MpscQueue {
 public:
  static constexpr const char* kName = "MpscQueue";
  static constexpr Guarantee kGuarantee = Guarantee::wait_free;
  static constexpr unsigned kPushSteps = 3;  ///< shared accesses of a push_chain
  static constexpr unsigned kPopSteps = 7;   ///< and of a pop, at most

  constexpr MpscQueue() noexcept = default;

  /// Takes over the blocks from `first` to `last`, linked through `next`. Any thread. Wait-free, O(1).
  void push_chain(FreeLink* first, FreeLink* last) noexcept {
    last->next.store(nullptr, Order::relaxed);  // before the exchange: the next pusher overwrites it
    // Release: our blocks' links for the owner. Acquire: the stub's or block's constructor, before we write into it.
    FreeLink* const before = or_stub(tail_.exchange(last, Order::acq_rel));
    before->next.store(first, Order::release);  // pairs with the two acquire loads in pop()
  }
  void push(FreeLink* link) noexcept { push_chain(link, link); }

  /// The oldest block, or null. Owner only. The caller owns the block. Wait-free, O(1).
  FreeLink* pop() noexcept {
    FreeLink* first = or_stub(front_);
    FreeLink* next = first->next.load(Order::acquire);
    if (first == &stub_) {
      if (!next) return nullptr;
      front_ = first = next;
      next = first->next.load(Order::acquire);
    }
    if (next) return leave_at(next, first);
    if (tail_.load(Order::relaxed) != first) return nullptr;  // a pusher stands between its two steps
    push(&stub_);
    // Whoever linked itself behind `first` exchanged the tail before our stub did, and that exchange has acquired its
    // blocks.
    next = first->next.load(Order::relaxed);
    return next ? leave_at(next, first) : nullptr;
  }

 private:
  FreeLink* or_stub(FreeLink* link) noexcept { return link ? link : &stub_; }
  FreeLink* leave_at(FreeLink* front, FreeLink* taken) noexcept {
    front_ = front;
    return taken;
  }

  Atomic<FreeLink*> tail_;  // null: the stub, as at the start
  FreeLink stub_;
  Shared<FreeLink*> front_;  // the owner's; null: the stub, as at the start
};

}  // namespace mortise
