// A lock whose holder does the work of those who wait, taken and opened like any other where nobody does.
//
//   held:     0 open, 1 held, 2 held and somebody sleeps            taken by a compare-exchange, opened by an exchange
//   pending:  ▶ [request] ▶ [request] ▶ null                        pushed by whoever found it held; requests lie on the waiters' stacks
//
// 1. Open: take it, do the work, look at `pending`; whatever is there is taken as a whole and done, oldest first. Then open it.
// 2. Held: look kTries times whether it opens: most holders are gone before a request has reached them.
// 3. Push the request, and look for a while whether it is done; who finds the lock open meanwhile takes it as in 1, with all that is
//    pending, its own as well.
// 4. Not done after kSpins looks: say that the request sleeps, put 2 into `held`, and sleep until it is done.
//
// Nobody sleeps unseen. The request is pushed before the 2 is put there. If the exchange that puts it finds 0, the sleeper has the
// lock and does what is pending itself. If not, whoever holds the lock opens it by an exchange that brings back the 2: then it looks at
// `pending` again, having acquired the push, and if something is there puts the 2 back: either that finds 0 and it holds the lock again
// and does what is pending, or another one holds it and will find the 2. A request is told that it is done exactly once, by whoever took it
// out of `pending`, and a sleeping one is woken then, with its result: it needs no lock any more. Wakes come after the lock is open.
//
// A woken thread does not come back for the lock and sleepers do not wake by themselves, so with more threads than cores those that run
// are few and are not preempted for others' sake. That, and not the combining, decides there.
//
// Bound: while no holder is preempted, a call that has asked waits for at most kBurst + 2 n works of others (n threads): the rest of the
// batch under way, those of holders that left it to wait, and its own batch; it has looked kTries times before. It does at most
// kServedMax + n works of others, and as many each time that it opens and somebody sleeps unserved. Progress: blocking.
// Source: flat combining [HendlerEtAl10], its publication list a stack; sleeping as in [Drepper11] mutex 3.
// Placement: the Sync slot of a backbone. The work may run on another thread: it must not touch thread-local state.
#pragma once

#include <cstdint>
#include <type_traits>

#include "mortise/core/inline.hpp"
#include "mortise/os/futex.hpp"
#include "mortise/sync/atomics.hpp"
#include "mortise/sync/delegation.hpp"
#include "mortise/sync/sync.hpp"

namespace mortise {

/// Flat combining: the holder does what others have asked for meanwhile. Blocking; waiters spin, then sleep.
/// `kBurst` (0..4096): how often requests that spin are left to wait before they are served.
/// `kServedMax` (1..4096): requests of others after which a holder takes no new ones.
/// `kTries` (0..1000000): how often a thread looks whether the lock opens before it asks its holder.
/// `kSpins` (0..1000000): how often a waiter looks before it sleeps.
/// `kLookEvery` (1..4096): looks at one's own request for each at the lock, whose line the holder writes to.
template <unsigned kBurst = 8, unsigned kServedMax = 64, unsigned kTries = 32, unsigned kSpins = 32,
          unsigned kLookEvery = 4>
class FlatCombiningLock {
 public:
  static constexpr const char* kName = "FlatCombiningLock";
  static constexpr Guarantee kGuarantee = Guarantee::blocking;

  /// Runs `work` in the critical section, perhaps on another thread, and returns what it returns.
  template <class Work> MORTISE_HOT auto with(Work& work) noexcept {
    if (!take()) [[unlikely]] return wait_for(work);
    if constexpr (std::is_void_v<std::invoke_result_t<Work&>>) {
      work();
      unlock();
    } else {
      const auto result = work();
      unlock();
      return result;
    }
  }

  /// The plain form, for what cannot be done by another thread. Not in turn: it waits until it finds the lock open.
  void lock() noexcept {
    while (!lock_within(~0u)) {}
  }
  /// Gives up after so many naps.
  bool lock_within(unsigned naps) noexcept {
    for (unsigned looks = 1; !take(); ++looks) {
      if (looks % (kSpins + 1) != 0) cpu_relax();
      else if (naps-- == 0) return false;
      else os::futex_wait(held_.address(), 1, kNapNs);
    }
    return true;
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
  static constexpr std::int64_t kNapNs = 100'000;  ///< of the plain form
  static constexpr unsigned kWakesMax = 32;
  enum : std::uint32_t { kWaiting, kAsleep, kDone };
  struct Node {
    Atomic<Node*> next{nullptr};
    Atomic<std::uint32_t> state{kWaiting};
    DelegatedCall call = nullptr;
    void* work = nullptr;
  };

  MORTISE_HOT bool take() noexcept {
    std::uint32_t is_open = 0;
    return held_.load(Order::relaxed) == 0 && held_.compare_exchange_strong(is_open, 1, Order::acquire, Order::relaxed);
  }
  MORTISE_COLD bool take_soon() noexcept {
    for (unsigned i = 0; i < kTries; ++i) {
      cpu_relax();
      if (take()) return true;
    }
    return false;
  }
  MORTISE_HOT void open() noexcept {
    if (is_slept_on_when_open()) [[unlikely]] look_again();
  }

  /// `work` is a copy, so that where the lock is open its captures need not lie in memory.
  template <class Work> MORTISE_COLD auto wait_for(Work work) noexcept {
    return result_of(work, [this]<class W>(W& w) noexcept { take_soon_or_ask(call_for<W>(), &w); });
  }
  void take_soon_or_ask(DelegatedCall call, void* work) noexcept {
    if (take_soon()) {
      call(work);
      return unlock();
    }
    Node here;
    here.call = call;
    here.work = work;
    ask(here);
  }
  void ask(Node& here) noexcept {
    Node* before = pending_.load(Order::relaxed);
    do here.next.store(before, Order::relaxed);
    while (!pending_.compare_exchange_weak(before, &here, Order::release, Order::relaxed));  // pairs with the acquire in serve()
    for (unsigned looks = 1; looks <= kSpins; ++looks) {
      if (here.state.load(Order::acquire) == kDone) return;  // pairs with the release in serve()
      if (looks % kLookEvery == 0 && take()) return serve_and_open();
      cpu_relax();
    }
    std::uint32_t waiting = kWaiting;
    if (!here.state.compare_exchange_strong(waiting, kAsleep, Order::acquire)) return;
    if (held_.exchange(2, Order::acq_rel) == 0) return serve_and_open();  // release: our push, for the exchange in open()
    while (here.state.load(Order::acquire) != kDone) os::futex_wait(here.state.address(), kAsleep);
  }

  // -- held

  MORTISE_COLD void serve_in_time() noexcept {
    if (left_ < kBurst) {
      left_ = left_ + 1;
      return open();
    }
    serve_and_open();
  }
  /// Does what is pending, and what has become so meanwhile, up to kServedMax; those who sleep are woken when the lock is open. Once more,
  /// and no deeper, when somebody has gone to sleep unserved.
  void serve_and_open() noexcept {
    do {
      const void* asleep[kWakesMax];
      unsigned sleepers = 0, served = 0;
      left_ = 0;
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
          if (n->state.exchange(kDone, Order::release) == kAsleep) {
            if (sleepers < kWakesMax) asleep[sleepers++] = word;
            else os::futex_wake(word, 1);
          }
          n = next;
        }
      } while (served < kServedMax && pending_.load(Order::relaxed));
      const bool was_slept_on = is_slept_on_when_open();
      while (sleepers > 0) os::futex_wake(asleep[--sleepers], 1);
      if (!was_slept_on) return;
    } while (has_to_look_again());
  }
  /// Opens. Release: for take(). Acquire: what was pushed before a sleeper put the 2 there.
  MORTISE_HOT bool is_slept_on_when_open() noexcept { return held_.exchange(0, Order::acq_rel) == 2; }
  /// The lock was opened, and somebody had said that it sleeps: its request is done, or pending; then yes, and the lock is held again.
  bool has_to_look_again() noexcept { return pending_.load(Order::relaxed) && held_.exchange(2, Order::acq_rel) == 0; }
  MORTISE_COLD void look_again() noexcept {
    if (has_to_look_again()) serve_and_open();
  }

  Atomic<std::uint32_t> held_{0};
  Shared<unsigned> left_{0};  ///< the holder's: how often requests have been left to wait
  Atomic<Node*> pending_{nullptr};
};

}  // namespace mortise
