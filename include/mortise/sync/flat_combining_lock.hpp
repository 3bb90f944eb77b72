// A lock whose holder does the work of those who wait, with one atomic operation where nobody does, and in bursts where many do.
//
//   held:     0 open, 1 held                                    one exchange takes it, a plain store opens it
//   pending:  ▶ [request] ▶ [request] ▶ null                    pushed by whoever found it held; requests lie on the waiters' stacks
//
// 1. Open: take it, do the work, look at `pending`. Empty: open it. 2. Held: push the request and wait until it is done, with a look at
// `held` now and then: a waiter that finds it open takes it and does all that is pending, its own as well. 3. A holder that finds
// requests leaves them for the first kBurst times (threads take the lock again and again while the heap is in their core's cache:
// to hand it over costs more than the work), then takes all of them and does them, oldest first.
//
// A store that opens the lock and the look at `pending` behind it may pass each other. What such a look misses is not lost: waiters
// look for themselves, and no waiter sleeps for longer than kNapNs. So no order between the two is needed.
//
// Bound: while no holder is preempted, a call waits for at most kBurst + 2 n works of others (n threads), and does at most
// kServedMax + n of them itself. Progress: blocking.
// Source: flat combining [HendlerEtAl10]; bounded bursts as in lock cohorting [DiceEtAl12].
// Placement: the Sync slot of a backbone. The work may run on another thread: it must not touch thread-local state.
#pragma once

#include <cstdint>
#include <type_traits>

#include "mortise/core/inline.hpp"
#include "mortise/os/futex.hpp"
#include "mortise/sync/atomics.hpp"
#include "mortise/sync/sync.hpp"

namespace mortise {

/// Flat combining: the holder does what others have asked for meanwhile. Blocking; waiters spin, then nap.
/// `kBurst` (0..4096): how often requests are left to wait before they are served.
/// `kServedMax` (1..4096): requests of others after which a holder takes no new ones.
/// `kSpins` (0..1000000): how often a waiter looks before it naps.
/// `kLookEvery` (1..4096): looks at one's own request for each at the lock, whose line the holder writes to.
template <unsigned kBurst = 256, unsigned kServedMax = 64, unsigned kSpins = 64, unsigned kLookEvery = 32> class FlatCombiningLock {
 public:
  static constexpr const char* kName = "FlatCombiningLock";
  static constexpr Guarantee kGuarantee = Guarantee::blocking;
  static constexpr std::int64_t kNapNs = 100'000;

  /// Runs `work` in the critical section, perhaps on another thread, and returns what it returns.
  template <class Work> MORTISE_HOT auto with(Work& work) noexcept {
    using Result = std::invoke_result_t<Work&>;
    if (take()) [[likely]] {
      if constexpr (std::is_void_v<Result>) {
        work();
        unlock();
      } else {
        const Result result = work();
        unlock();
        return result;
      }
    } else if constexpr (std::is_void_v<Result>) {
      ask(work);
    } else {
      Result result{};
      auto keep = [&]() noexcept { result = work(); };
      ask(keep);
      return result;
    }
  }

  /// The plain form, for fork and audits. Not in turn: it waits until it finds the lock open.
  void lock() noexcept {
    for (unsigned looks = 1; !take(); ++looks) {
      if (looks % (kSpins + 1) == 0) os::futex_wait(held_.address(), 1, kNapNs);
      else cpu_relax();
    }
  }
  MORTISE_HOT void unlock() noexcept {
    if (pending_.load(Order::relaxed)) [[unlikely]] return serve_in_time();
    open();
  }
  void reset() noexcept {
    held_.store(0, Order::relaxed);
    pending_.store(nullptr, Order::relaxed);
  }

 private:
  enum : std::uint32_t { kWaiting, kAsleep, kDone };
  struct Node {
    Atomic<Node*> next{nullptr};
    Atomic<std::uint32_t> state{kWaiting};
    void (*call)(void*) noexcept = nullptr;
    void* work = nullptr;
  };

  MORTISE_HOT bool take() noexcept { return held_.load(Order::relaxed) == 0 && held_.exchange(1, Order::acquire) == 0; }
  MORTISE_HOT void open() noexcept { held_.store(0, Order::release); }  // pairs with the acquire in take()

  template <class Work> MORTISE_COLD void ask(Work& work) noexcept {
    Node here;
    here.call = [](void* w) noexcept { (*static_cast<Work*>(w))(); };
    here.work = &work;
    ask(here);
  }
  void ask(Node& here) noexcept {
    Node* before = pending_.load(Order::relaxed);
    do here.next.store(before, Order::relaxed);
    while (!pending_.compare_exchange_weak(before, &here, Order::release, Order::relaxed));  // pairs with the acquire in serve()
    for (unsigned looks = 1;; ++looks) {
      if (here.state.load(Order::acquire) == kDone) return;  // pairs with the release in serve()
      if (looks % kLookEvery == 0 && take()) {
        // Nobody else holds it, so our request is either done or still pending.
        if (here.state.load(Order::acquire) != kDone) serve();
        return open();
      }
      if (looks % (kSpins + kLookEvery) == 0) nap(here);
      else cpu_relax();
    }
  }
  /// From the first nap on a request says that it sleeps: being woken when it does not is harmless.
  static void nap(Node& here) noexcept {
    std::uint32_t waiting = kWaiting;
    here.state.compare_exchange_strong(waiting, kAsleep, Order::relaxed);
    os::futex_wait(here.state.address(), kAsleep, kNapNs);
  }

  // -- held

  MORTISE_COLD void serve_in_time() noexcept {
    const unsigned left = left_;
    if (left >= kBurst) serve();
    else left_ = left + 1;
    open();
  }
  /// Does what is pending, and what has become so meanwhile, up to kServedMax.
  void serve() noexcept {
    left_ = 0;
    unsigned served = 0;
    do {
      Node* oldest = nullptr;
      for (Node* n = pending_.exchange(nullptr, Order::acquire); n;) {
        Node* const next = n->next.load(Order::relaxed);
        n->next.store(oldest, Order::relaxed);
        oldest = n;
        n = next;
      }
      for (Node* n = oldest; n; ++served) {
        Node* const next = n->next.load(Order::relaxed);
        n->call(n->work);
        const void* const word = n->state.address();
        // From the exchange on the request may be gone; waking an address that nobody sleeps on is harmless.
        if (n->state.exchange(kDone, Order::release) == kAsleep) os::futex_wake(word, 1);
        n = next;
      }
    } while (served < kServedMax && pending_.load(Order::relaxed));
  }

  Atomic<std::uint32_t> held_{0};
  Shared<unsigned> left_{0};  ///< the holder's: how often requests have been left to wait
  Atomic<Node*> pending_{nullptr};
};

}  // namespace mortise
