// A bin of free blocks that any thread may fill and empty without a lock.
//
//   head: ┌─────┬─────┐     block        block        block
//         │ top │ tag │     ┌──────┐     ┌──────┐     ┌──────┐
//         └──┬──┴─────┘  ┌─▶│ next─┼────▶│ next─┼────▶│ null │
//            └───────────┘  └──────┘     └──────┘     └──────┘
//
// 1. push: link the chain's last block to the top, then swing the head to its first by compare-exchange.
// 2. pop: read the top and its next, then swing the head to next.
// 3. steal_all: swing the head to null; the whole chain is the caller's.
//
// Every swing counts the tag up, so that no head comes twice. Without that, a top that was popped, used and pushed
// again between reading `next` and the compare-exchange would be taken for untouched (ABA). It is not enough that pops
// count: the two halves of the head are read one after the other, and an old top with the tag that a later pop left
// would fit the head that a push then makes. 64 bits do not come round in the life of a process.
//
// Progress: lock-free; a call repeats only because another thread's call has succeeded. Placement: blocks must stay
// mapped while the bin lives, since a slow pop may read the first word of a block that has been handed out. It must not
// stand above a source that unmaps blocks. Source: [Treiber86], tags as in [Michael04].
#pragma once

#include <cstdint>

#include "mortise/core/inline.hpp"
#include "mortise/core/progress.hpp"
#include "mortise/sync/atomics.hpp"
#include "mortise/sync/free_link.hpp"

namespace mortise {

/// A lock-free list. All zero is a valid empty bin.
class LockFreeBin {
 public:
  static constexpr const char* kName = "LockFreeBin";
  static constexpr Guarantee kGuarantee = Guarantee::lock_free;
  static constexpr bool kReadsTakenBlocks = true;

  constexpr LockFreeBin() noexcept = default;

  /// Takes over the blocks from `first` to `last`, linked through `next`. Lock-free. O(1) but for repeats.
  void push_chain(FreeLink* first, FreeLink* last) noexcept {
    Head head = head_.load_halves(Order::relaxed);
    do {
      last->next.store(head.top, Order::relaxed);  // published by the compare-exchange, which releases
    } while (!head_.compare_exchange(head, {first, head.tag + 1}));
  }
  void push(FreeLink* link) noexcept { push_chain(link, link); }

  /// The block pushed last, or null. The caller owns it. Lock-free. O(1) but for repeats.
  FreeLink* pop() noexcept {
    Head head = head_.load_halves(Order::acquire);
    while (head.top) {
      // The acquire in load_halves and in compare_exchange pairs with the pusher's release: `next` is what it wrote or
      // later.
      FreeLink* const next = next_of(head.top);
      if (head_.compare_exchange(head, {next, head.tag + 1})) return head.top;
    }
    return nullptr;
  }

  /// All blocks, linked newest first through `next`, or null. The caller owns them. Lock-free. O(1) but for repeats.
  FreeLink* steal_all() noexcept {
    Head head = head_.load_halves(Order::relaxed);
    while (head.top && !head_.compare_exchange(head, {nullptr, head.tag + 1})) {
    }
    return head.top;
  }

  /// Whether there was nothing at some moment during the call. Wait-free.
  bool empty() const noexcept { return head_.load_halves(Order::relaxed).top == nullptr; }

 private:
  struct Head {
    FreeLink* top;
    std::uint64_t tag;
  };

#ifdef MORTISE_THREAD_SANITIZER
  // The block may have been handed out, and what is read here be the program's: the exchange then fails. Not to be told of.
  [[gnu::noinline, gnu::no_sanitize("thread")]] static FreeLink* next_of(const FreeLink* link) noexcept {
    return *reinterpret_cast<FreeLink* const volatile*>(link);
  }
#else
  static FreeLink* next_of(const FreeLink* link) noexcept { return link->next.load(Order::relaxed); }
#endif

  AtomicPair<Head> head_;
};

}  // namespace mortise
