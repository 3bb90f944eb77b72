// A lock whose holder does the work of those who wait: one cache line travels a request, instead of the whole heap.
//
//   tail ─► [node: work, next] ◄─ [node] ◄─ [node]      a queue of requests; nodes lie on the waiters' stacks
//             holder               served in order, up to kServedMax, then the next one is the holder
//
// A thread that finds the queue empty holds the lock and does its own work. One that does not appends its request and waits until
// it is done, or until it is told to be the holder. So the data stays in the holder's cache while requests of many threads pass.
// Waiters spin briefly, then sleep: with more threads than cores the holder may be off its core.
//
// Bound: a call waits for at most kServedMax requests of others while no holder is preempted, and is served in queue order.
// Progress: blocking. Source: CC-Synch and DSM-Synch [FatourouKallimanis12]; taking a queue node along as in [Auslander03] K42.
// Placement: the Sync slot of a backbone. The work may run on another thread: it must not touch thread-local state.
#pragma once

#include <cstdint>

#include "mortise/os/futex.hpp"
#include "mortise/sync/atomics.hpp"
#include "mortise/sync/delegation.hpp"
#include "mortise/sync/sync.hpp"

namespace mortise {

/// Blocking; waiters spin briefly, then sleep.
/// `kServedMax` (1..1024): requests of others that a holder serves before it hands on.
/// `kSpins` (0..1000000): how often a waiter looks before it sleeps.
template <unsigned kServedMax = 64, unsigned kSpins = 200> class CombiningLock {
 public:
  static constexpr const char* kName = "CombiningLock";
  static constexpr Guarantee kGuarantee = Guarantee::blocking;

  /// Runs `work` in the critical section, perhaps on another thread, and returns what it returns.
  template <class Work> auto with(Work& work) noexcept {
    return result_of(work, [this](auto& w) noexcept { run(w); });
  }

  /// The plain form, for fork and audits: nobody's work is done meanwhile; unlock() serves those who came.
  void lock() noexcept {
    Node here;
    if (!enter(here)) await(here);
    // The queue must not point to this frame when we return: our place in it moves to a node of the lock's own.
    owner_.next.store(nullptr, Order::relaxed);
    Node* next = here.next.load(Order::acquire);
    if (!next) {
      Node* last = &here;
      if (tail_.compare_exchange_strong(last, &owner_, Order::acq_rel)) return;
      next = await_next(here);
    }
    owner_.next.store(next, Order::relaxed);
  }
  void unlock() noexcept { leave(owner_); }
  void reset() noexcept { tail_.store(nullptr, Order::relaxed); }

 private:
  enum : std::uint32_t { kWaiting, kAsleep, kDone, kHolder };
  struct Node {
    Atomic<Node*> next{nullptr};
    Atomic<std::uint32_t> state{kWaiting};
    DelegatedCall call = nullptr;  ///< null: wants to hold the lock itself
    void* work = nullptr;
  };

  template <class Work> void run(Work& work) noexcept {
    Node here;
    here.call = call_for<Work>();
    here.work = &work;
    if (!enter(here) && await(here) == kDone) return;
    work();
    leave(here);
  }

  /// Appends `n`; true when nobody was there and the lock is ours.
  bool enter(Node& n) noexcept {
    Node* before = tail_.exchange(&n, Order::acq_rel);
    if (!before) return true;
    before->next.store(&n, Order::release);  // pairs with the acquire in leave() and await_next()
    return false;
  }

  std::uint32_t await(Node& n) noexcept {
    for (unsigned i = 0; i < kSpins; ++i) {
      const std::uint32_t s = n.state.load(Order::acquire);  // pairs with the release in tell()
      if (s != kWaiting) return s;
      cpu_relax();
    }
    std::uint32_t waiting = kWaiting;
    n.state.compare_exchange_strong(waiting, kAsleep, Order::acquire);
    for (;;) {
      const std::uint32_t s = n.state.load(Order::acquire);
      if (s != kAsleep) return s;
      os::futex_wait(n.state.address(), kAsleep);
    }
  }
  /// The node behind `n` has been announced by an exchange of the tail; its link comes a moment later.
  static Node* await_next(Node& n) noexcept {
    for (;;) {
      if (Node* next = n.next.load(Order::acquire)) return next;
      cpu_relax();
    }
  }
  static void tell(Node& n, std::uint32_t what) noexcept {
    const void* const word = n.state.address();
    // From the exchange on the node may be gone; waking an address that nobody sleeps on is harmless.
    if (n.state.exchange(what, Order::acq_rel) == kAsleep) os::futex_wake(word, 1);
  }

  /// Serves those who wait behind `mine`, then lets the lock go or hands it on. A node is told that it is done only when the way
  /// from it to the next is known, for then it may vanish.
  void leave(Node& mine) noexcept {
    Node* at = &mine;
    for (unsigned served = 0;; ++served) {
      Node* next = at->next.load(Order::acquire);
      if (!next) {
        Node* last = at;
        if (tail_.compare_exchange_strong(last, nullptr, Order::acq_rel)) {
          if (at != &mine) tell(*at, kDone);
          return;
        }
        next = await_next(*at);
      }
      if (at != &mine) tell(*at, kDone);
      if (served == kServedMax || !next->call) return tell(*next, kHolder);
      next->call(next->work);
      at = next;
    }
  }

  Atomic<Node*> tail_{nullptr};
  Node owner_;
};

}  // namespace mortise
