// Small structures with one bug each, as they are made in lock-free allocators; `Seeded` false is the same without the
// bug.
#pragma once

#include "explorer/explorer.hpp"
#include "explorer/hooks.hpp"
#include "mortise/os/rseq.hpp"
#include "mortise/sync/atomics.hpp"
#include "owned_blocks.hpp"

namespace mortise::model {

/// A span is filled in and its pointer published.
template <Order Store, Order Load>
struct Publication {
  static constexpr unsigned kThreads = 2;
  Shared<int> span;
  Atomic<Shared<int>*> published;
  void run(unsigned thread) {
    if (thread == 0) {
      span.set(42);
      published.store(&span, Store);
    } else if (Shared<int>* const seen = published.load(Load)) {
      require(seen->get() == 42, "a published span was not filled in");
    }
  }
  void finish() {}
};
template <bool Seeded>
struct DroppedRelease : Publication<Seeded ? Order::relaxed : Order::release, Order::acquire> {};
template <bool Seeded>
struct DroppedAcquire : Publication<Order::release, Seeded ? Order::relaxed : Order::acquire> {};

/// The last of two users of a heap destroys it.
template <bool Seeded>
struct DroppedAcquireFence {
  static constexpr unsigned kThreads = 2;
  Atomic<int> users{2};
  Shared<int> state[2], heap;
  void run(unsigned thread) {
    state[thread].set(1);
    if (users.fetch_sub(1, Order::release) != 1) return;
    if (!Seeded) fence(Order::acquire);
    require(state[0].get() + state[1].get() == 2, "the heap was destroyed with a user in it");
    heap.set(1);
  }
  void finish() {}
};

/// One thread announces that it reads a block; the other takes the block away and looks whether anybody has announced.
template <Order O, bool Fenced>
struct Announcement {
  static constexpr unsigned kThreads = 2;
  Atomic<int> reading, taken;
  Shared<int> block;
  void run(unsigned thread) {
    Atomic<int>& mine = thread == 0 ? reading : taken;
    Atomic<int>& other = thread == 0 ? taken : reading;
    mine.store(1, O);
    if (Fenced) fence(Order::seq_cst);
    if (other.load(O == Order::release ? Order::acquire : O) == 0) block.set(static_cast<int>(thread));
  }
  void finish() {}
};
template <bool Seeded>
struct DroppedStoreLoadFence : Announcement<Order::relaxed, !Seeded> {};
template <bool Seeded>
struct WeakenedSequentialConsistency : Announcement<Seeded ? Order::release : Order::seq_cst, false> {};

template <bool Seeded>
struct PublishBeforeInitialise {
  static constexpr unsigned kThreads = 2;
  Atomic<bool> ready;
  Shared<int> size;
  void run(unsigned thread) {
    if (thread == 0) {
      if (Seeded) ready.store(true, Order::release);
      size.set(64);
      if (!Seeded) ready.store(true, Order::release);
    } else if (ready.load(Order::acquire)) {
      require(size.get() == 64, "a span without a size");
    }
  }
  void finish() {}
};

/// A header is constructed in fresh memory, and found through a page map.
template <bool Seeded>
struct UseBeforeConstruction {
  static constexpr unsigned kThreads = 2;
  alignas(8) std::byte memory[8];
  Atomic<Atomic<std::uint64_t>*> map;
  void run(unsigned thread) {
    if (thread == 0) {
      auto* const header = ::new (memory) Atomic<std::uint64_t>(7);
      map.store(header, Seeded ? Order::relaxed : Order::release);
    } else if (Atomic<std::uint64_t>* const header = map.load(Order::acquire)) {
      require(header->load(Order::relaxed) == 7, "a header that was not constructed");
    }
  }
  void finish() {}
};

/// A stack of free blocks, with the two ways in which its head may go wrong.
template <bool CountPushes, bool CountPops>
struct TaggedStack {
  struct Head {
    FreeLink* top;
    std::uint64_t tag;
  };
  AtomicPair<Head> head_;
  void push(FreeLink* link) {
    Head head = head_.load_halves(Order::acquire);
    do link->next.store(head.top, Order::relaxed);
    while (!head_.compare_exchange(head, {link, head.tag + CountPushes}));
  }
  FreeLink* pop() {
    Head head = head_.load_halves(Order::acquire);
    while (head.top) {
      FreeLink* const next = head.top->next.load(Order::relaxed);
      if (head_.compare_exchange(head, {next, head.tag + CountPops})) return head.top;
    }
    return nullptr;
  }
};

/// Pop against pop, pop, push. The program does not write into the blocks, so that only the stack itself can go wrong.
template <class Stack, bool Writes>
struct PopsAndAPush {
  static constexpr unsigned kThreads = 2;
  Stack bin;
  Block block[2];
  PopsAndAPush() {
    bin.push(&block[1].link);
    bin.push(&block[0].link);
  }
  FreeLink* take() {
    FreeLink* const link = bin.pop();
    if (!link) return nullptr;
    if (Writes) {
      own(link);
    } else {
      auto* const taken = reinterpret_cast<Block*>(link);
      require(taken->owned.get() == 0, "a block was handed out twice");
      taken->owned.set(1);
    }
    return link;
  }
  void run(unsigned thread) {
    if (thread == 0) {
      take();
      take();
      return;
    }
    FreeLink* const first = take();
    take();
    if (!first) return;
    reinterpret_cast<Block*>(first)->owned.set(0);
    bin.push(first);
  }
  void finish() { check_each_once(bin, block, 2); }
};
template <bool Seeded>
struct AbaOnAStack : PopsAndAPush<TaggedStack<!Seeded, !Seeded>, false> {};
/// Pops count the tag up, pushes do not: an old top read with a newer tag fits the head that a push then makes.
template <bool Seeded>
struct TornHead : PopsAndAPush<TaggedStack<!Seeded, true>, true> {};

/// Two threads free blocks of one span into its bitmap.
template <bool Seeded>
struct LostUpdate {
  static constexpr unsigned kThreads = 2;
  Atomic<std::uint64_t> bits;
  void run(unsigned thread) {
    const std::uint64_t bit = std::uint64_t{1} << thread;
    if (Seeded) bits.store(bits.load(Order::acquire) | bit, Order::release);
    else bits.fetch_or(bit, Order::acq_rel);
  }
  void finish() { require(bits.load(Order::relaxed) == 3, "a free was lost"); }
};

/// Two pushes into a queue; the seeded one ends its block's list only after it is in the queue.
template <bool Seeded>
struct LostLink {
  static constexpr unsigned kThreads = 2;
  FreeLink stub;
  Atomic<FreeLink*> tail;
  Block block[2];
  LostLink() {
    tail.store(&stub, Order::relaxed);
    block[0].link.next.store(&g_trap, Order::relaxed);
    block[1].link.next.store(&g_trap, Order::relaxed);
  }
  void run(unsigned thread) {
    FreeLink* const mine = &block[thread].link;
    if (!Seeded) mine->next.store(nullptr, Order::relaxed);
    FreeLink* const before = tail.exchange(mine, Order::acq_rel);
    if (Seeded) mine->next.store(nullptr, Order::relaxed);
    before->next.store(mine, Order::release);
  }
  void finish() {
    unsigned found = 0;
    for (FreeLink* link = stub.next.load(Order::relaxed); link; link = link->next.load(Order::relaxed)) ++found;
    require(found == 2, "a block is lost");
  }
};

/// A magazine of blocks is stolen while its owner pops.
template <bool Seeded>
struct DoubleHandOutOnSteal {
  static constexpr unsigned kThreads = 2;
  Atomic<unsigned> count{2};
  Atomic<int> owned[2];
  void take(unsigned i) { require(owned[i].exchange(1, Order::relaxed) == 0, "a block was handed out twice"); }
  void run(unsigned thread) {
    unsigned have;
    if (thread == 0) {
      have = count.load(Order::acquire);
      while (have && !count.compare_exchange_weak(have, have - 1, Order::acq_rel)) {
      }
      if (have) take(have - 1);
      return;
    }
    if (Seeded) {
      have = count.load(Order::acquire);
      count.store(0, Order::release);
    } else {
      have = count.exchange(0, Order::acq_rel);
    }
    for (unsigned i = 0; i < have; ++i) take(i);
  }
  void finish() {
    require(count.load(Order::relaxed) == 0, "a block stayed");
    require(owned[0].load(Order::relaxed) + owned[1].load(Order::relaxed) == 2, "a block is lost");
  }
};

/// A linked queue whose tail may lag behind by one block; who finds it lagging must help it on.
template <bool Seeded>
struct DroppedHelpingStep {
  static constexpr unsigned kThreads = 2;
  FreeLink first;
  Block block[2];
  Atomic<FreeLink*> tail;
  DroppedHelpingStep() { tail.store(&first, Order::relaxed); }
  void run(unsigned thread) {
    FreeLink* const mine = &block[thread].link;
    for (;;) {
      FreeLink* last = tail.load(Order::acquire);
      FreeLink* next = last->next.load(Order::acquire);
      if (next) {
        if (!Seeded) tail.compare_exchange_strong(last, next, Order::acq_rel);
        else cpu_relax();
      } else if (last->next.compare_exchange_strong(next, mine, Order::acq_rel)) {
        tail.compare_exchange_strong(last, mine, Order::acq_rel);
        return;
      }
    }
  }
  void finish() {
    unsigned found = 0;
    for (FreeLink* link = first.next.load(Order::relaxed); link; link = link->next.load(Order::relaxed)) ++found;
    require(found == 2, "a block is lost");
  }
};

/// "Lock-free" with a flag that one thread holds while it works.
template <bool Seeded>
struct WaitLoopOnAStoppedThread {
  static constexpr unsigned kThreads = 2;
  Atomic<int> busy, total;
  void run(unsigned) {
    if (!Seeded) {
      total.fetch_add(1, Order::relaxed);
      return;
    }
    while (busy.exchange(1, Order::acquire))
      while (busy.load(Order::relaxed)) cpu_relax();
    total.store(total.load(Order::relaxed) + 1, Order::relaxed);
    busy.store(0, Order::release);
  }
  void finish() { require(total.load(Order::relaxed) == 2, "an update was lost"); }
};

/// Claims a bound that only holds when nobody else is there.
template <bool Seeded>
struct BoundThatContentionBreaks {
  static constexpr unsigned kThreads = 3;
  Atomic<int> total;
  void run(unsigned) {
    const StepLimit bound("add", 2);
    if (!Seeded) {
      total.fetch_add(1, Order::relaxed);
      return;
    }
    int seen = total.load(Order::relaxed);
    while (!total.compare_exchange_strong(seen, seen + 1, Order::relaxed)) {
    }
  }
  void finish() { require(total.load(Order::relaxed) == 3, "an update was lost"); }
};

/// A magazine of core 0 is emptied from core 1: its set leaves the table, running sections are restarted, then it is
/// nobody's but ours, until it comes back.
template <bool Restart, bool BackAtTheEnd>
struct Steal {
  static constexpr unsigned kThreads = 2;
  Atomic<std::byte*> table[2];
  using Rack = os::Rack<1>;
  Rack rack = {}, closed_rack = {};
  std::byte* slots[2];
  std::byte* const set = reinterpret_cast<std::byte*>(&rack);
  std::byte* const closed = reinterpret_cast<std::byte*>(&closed_rack);
  Block block[2];
  Steal() {
    table[0].store(set, Order::relaxed);
    table[1].store(closed, Order::relaxed);
    rack.place(0, slots);
    rack.set_limit(0, 2);
    for (Block& b : block) Rack::push({}, table[0].address(), 0, reinterpret_cast<std::byte*>(&b));
  }
  void run(unsigned thread) {
    hooks::run_on_core(static_cast<int>(thread));
    if (thread == 0) {
      if (std::byte* const p = Rack::pop({}, table[0].address(), 0)) own(reinterpret_cast<FreeLink*>(p));
      return;
    }
    table[0].store(closed, Order::release);
    if (Restart) os::rseq_restart_all();
    if (!BackAtTheEnd) table[0].store(set, Order::release);
    const unsigned count = rack.count(0);
    rack.set_count(0, 0);
    for (unsigned i = 0; i < count; ++i) own(reinterpret_cast<FreeLink*>(slots[i]));
    if (BackAtTheEnd) table[0].store(set, Order::release);
  }
  void finish() {
    require(block[0].owned.get() + block[1].owned.get() == 2 || rack.count(0) != 0, "a block is lost");
  }
};
template <bool Seeded>
struct StealWithoutRestart : Steal<!Seeded, true> {};
template <bool Seeded>
struct MagazineBackTooEarly : Steal<true, !Seeded> {};

/// Two locks, taken in two orders.
template <bool Seeded>
struct Deadlock {
  static constexpr unsigned kThreads = 2;
  Atomic<int> lock[2];
  void hold(unsigned i) {
    while (lock[i].exchange(1, Order::acquire))
      while (lock[i].load(Order::relaxed)) cpu_relax();
  }
  void run(unsigned thread) {
    const unsigned first = Seeded ? thread : 0;
    hold(first);
    hold(1 - first);
    lock[1 - first].store(0, Order::release);
    lock[first].store(0, Order::release);
  }
  void finish() {}
};

}  // namespace mortise::model
