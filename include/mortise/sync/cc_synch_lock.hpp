// CC-Synch: a queue of requests whose first waiter does the work of those behind it.
//
//            done          done        turn                     waiting
//   ...     [node] ─────▶ [node] ───▶ [node: request] ───▶ ... [node: empty] ◀── tail
//                                      does its own, then those behind it, up to kServedMax or to the empty one
//
// 1. Bring an empty node, exchange the tail for it: the node that was the tail is yours.
// 2. Write the request into it, then link it to the one you brought.
// 3. Wait on your node: done - somebody has done the request; turn - do it yourself, then those that are linked behind, telling each that
//    it is done, and give the turn to the first one not done, be it empty: then whoever gets it has the turn at once.
// 4. The node that was yours is the one to bring next time.
//
// Each waits on a node that only its server writes to. A node is read no more once its waiter was told, and its link was read before;
// so nodes may be used again at once. In the paper a thread keeps its node between calls. A lock here knows no threads, so nodes lie in
// the lock, and are taken and given back by two more atomic operations on one word.
//
// Bound: requests are served in the order of the exchanges, so while no server is preempted a call waits for at most n - 1 works of others
// (n threads), and does at most kServedMax. Progress: blocking; when kNodes - 1 threads wait, more wait for a node.
// Source: CC-Synch [FatourouKallimanis12].
// Placement: the Sync slot of a backbone. The work may run on another thread: it must not touch thread-local state.
#pragma once

#include <bit>
#include <cstdint>

#include "mortise/os/futex.hpp"
#include "mortise/sync/atomics.hpp"
#include "mortise/sync/delegation.hpp"
#include "mortise/sync/sync.hpp"

namespace mortise {

/// CC-Synch. Blocking, first come first served; waiters spin, then sleep. All zero is an open lock.
/// `kServedMax` (1..1024): requests of others that a thread serves before it gives the turn on.
/// `kSpins` (0..1000000): how often a waiter looks before it sleeps.
/// `kNodes` (2..64): one more than the threads that may wait at once.
template <unsigned kServedMax = 64, unsigned kSpins = 200, unsigned kNodes = 64> class CcSynchLock {
  static_assert(kNodes >= 2 && kNodes <= 64, "CcSynchLock: 2 to 64 nodes, a bit of a word each");

 public:
  static constexpr const char* kName = "CcSynchLock";
  static constexpr Guarantee kGuarantee = Guarantee::blocking;

  /// Runs `work` in the critical section, perhaps on another thread, and returns what it returns.
  template <class Work> auto with(Work& work) noexcept {
    return result_of(work, [this](auto& w) noexcept { run(w); });
  }

  /// The plain form: a request that nobody else can do. Who comes to it gives it the turn; unlock() serves those behind.
  void lock() noexcept {
    Node& mine = enter(nullptr, nullptr);
    await(mine);
    holder_ = &mine;
  }
  void unlock() noexcept {
    Node& mine = *holder_;
    serve_behind(mine);
    give(mine);
  }
  void reset() noexcept {
    tail_.store(nullptr, Order::relaxed);
    used_.store(0, Order::relaxed);
    nodes_[0].state.store(kTurn, Order::relaxed);
    nodes_[0].next.store(nullptr, Order::relaxed);
  }

 private:
  enum : std::uint32_t { kTurn, kWaiting, kAsleep, kDone };
  struct Node {
    Atomic<Node*> next;
    Atomic<std::uint32_t> state;  ///< zero: whoever gets it has the turn, as at the start
    Shared<DelegatedCall> call;   ///< null: wants the lock itself
    Shared<void*> work;
  };

  template <class Work> void run(Work& work) noexcept {
    Node& mine = enter(call_for<Work>(), &work);
    if (await(mine) == kTurn) {
      work();
      serve_behind(mine);
    }
    give(mine);
  }

  Node& enter(DelegatedCall call, void* work) noexcept {
    Node& brought = take();
    brought.next.store(nullptr, Order::relaxed);
    brought.state.store(kWaiting, Order::relaxed);
    Node* const before = tail_.exchange(&brought, Order::acq_rel);  // whoever gets it sees it empty
    Node& mine = before ? *before : nodes_[0];
    mine.call = call;
    mine.work = work;
    mine.next.store(&brought, Order::release);  // pairs with the acquire in serve_behind()
    return mine;
  }
  static std::uint32_t await(Node& n) noexcept {
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
  static void tell(Node& n, std::uint32_t what) noexcept {
    const void* const word = n.state.address();
    // From the exchange on the node may be somebody else's; a wake too many is harmless.
    if (n.state.exchange(what, Order::acq_rel) == kAsleep) os::futex_wake(word, 1);
  }
  void serve_behind(Node& mine) noexcept {
    Node* at = mine.next.load(Order::relaxed);  // our own store
    for (unsigned served = 0;; ++served) {
      Node* const next = at->next.load(Order::acquire);
      if (!next || served == kServedMax || !at->call.get()) return tell(*at, kTurn);
      at->call.get()(at->work);
      tell(*at, kDone);
      at = next;
    }
  }

  // Bit i of the word: node i is in use. The first one is so from the start, and its bit is the other way round: all zero is valid.
  Node& take() noexcept {
    std::uint64_t seen = used_.load(Order::relaxed);
    for (;;) {
      const std::uint64_t open = ~(seen ^ 1) & kMask;
      if (!open) {
        cpu_relax();
        seen = used_.load(Order::relaxed);
      } else if (used_.compare_exchange_weak(seen, seen ^ (open & -open), Order::acquire, Order::relaxed)) {
        return nodes_[std::countr_zero(open)];
      }
    }
  }
  void give(Node& n) noexcept {
    const std::uint64_t bit = std::uint64_t{1} << (&n - nodes_);
    if (bit == 1) used_.fetch_or(1, Order::release);  // pairs with the acquire in take()
    else used_.fetch_and(~bit, Order::release);
  }

  static constexpr std::uint64_t kMask = kNodes == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << kNodes) - 1;
  alignas(64) Atomic<Node*> tail_;  ///< null: the first node
  Shared<Node*> holder_;            ///< of the plain form: the holder's node
  alignas(64) Atomic<std::uint64_t> used_;
  alignas(64) Node nodes_[kNodes];
};

}  // namespace mortise
