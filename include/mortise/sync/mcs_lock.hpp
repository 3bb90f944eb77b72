// A fair lock whose waiters each spin on a word of their own: the waiting costs no traffic on the lock's line.
//
//   tail ───────────────────────────┐          held without waiters: tail points to the lock itself
//   next ──▶ [waiter] ──▶ [waiter] ◀┘          a waiter's node lies on its stack, and only while it waits
//
// 1. lock: nobody there - put the lock itself into the tail. Else append a node, wait for its word, and when served move what
// is queued behind the node into the lock, because the node goes with the stack frame. 2. unlock: serve the next, or empty the tail.
//
// Progress: blocking, first come first served. Source: [Scott13] 4.3.1, the K42 variant of [MellorCrummeyScott91], whose lock and
// unlock need no argument.
#pragma once

#include "mortise/sync/atomics.hpp"
#include "mortise/sync/sync.hpp"

namespace mortise {

/// All zero is an open lock. For short sections on cores that the threads have to themselves.
class McsLock {
 public:
  static constexpr const char* kName = "McsLock";
  static constexpr Guarantee kGuarantee = Guarantee::blocking;

  void lock() noexcept {
    for (;;) {
      Node* before = tail_.load(Order::acquire);
      if (!before) {
        if (tail_.compare_exchange_weak(before, &self_, Order::acquire)) return;
        continue;
      }
      Node mine;
      mine.is_waiting.store(1, Order::relaxed);
      if (tail_.compare_exchange_weak(before, &mine, Order::acq_rel)) return wait_behind(before, mine);
    }
  }
  void unlock() noexcept {
    Node* after = self_.next.load(Order::acquire);
    if (!after) {
      Node* only = &self_;
      if (tail_.compare_exchange_strong(only, nullptr, Order::release)) return;
      after = next_of(self_);
    }
    self_.next.store(nullptr, Order::relaxed);
    after->is_waiting.store(0, Order::release);  // pairs with the acquire in wait_behind()
  }
  void reset() noexcept {
    tail_.store(nullptr, Order::relaxed);
    self_.next.store(nullptr, Order::relaxed);
  }

 private:
  struct Node {
    Atomic<Node*> next;
    Atomic<std::uint32_t> is_waiting;
  };

  void wait_behind(Node* before, Node& mine) noexcept {
    before->next.store(&mine, Order::release);  // pairs with the acquire in next_of() and unlock()
    while (mine.is_waiting.load(Order::acquire)) cpu_relax();
    // Ours now. What queued behind our node must not point to it any more when we leave this frame.
    Node* after = mine.next.load(Order::acquire);
    if (!after) {
      Node* last = &mine;
      if (tail_.compare_exchange_strong(last, &self_, Order::acq_rel)) return;
      after = next_of(mine);
    }
    self_.next.store(after, Order::relaxed);
  }
  static Node* next_of(Node& node) noexcept {
    Node* after;
    while (!(after = node.next.load(Order::acquire))) cpu_relax();  // whoever took the tail is about to link itself
    return after;
  }

  Node self_;  ///< stands for the holder in the queue
  Atomic<Node*> tail_;
};

}  // namespace mortise
