// If this fails, a thread of wfslab never hears of blocks that were freed for it, or hears of them after its span has gone to
// somebody else, or the slot of a thread that has ended cannot be taken over: the shipped slots and spans are run in every
// interleaving that matters, with each thread stopped for ever at each step.
#include "mortise/backbone/wait_free_slot.hpp"

#include <gtest/gtest.h>

#include "mortise/policy/size_classes.hpp"
#include "owned_blocks.hpp"
#include "running.hpp"

namespace mortise::model {
namespace {

using Classes = classes::PowerOfTwo<64_KiB>;
using Slot = WaitFreeSlot<Classes>;
constexpr unsigned kClass = Classes::class_of(64_KiB), kBlocks = 4;  // four blocks a span: one word
constexpr unsigned kFreeSteps = 6, kLookSteps = 8, kRefillSteps = 6, kRestockSteps = 8;

/// Two slots and a span of four blocks, all handed out by slot 0.
struct Heap {
  Slot slot[2];
  WaitFreeSpan span;
  Shared<int> owned[kBlocks];

  static std::byte* base() { return reinterpret_cast<std::byte*>(std::uintptr_t{256_KiB} * 5); }
  Heap() {
    slot[1].number = 1;
    begin_in(slot[0]);
    for (unsigned i = 0; i < kBlocks; ++i) own(i);
  }
  /// The slot adopts the span and takes all of it as a word, which is then the caller's.
  void begin_in(Slot& s) {
    s.adopt(&span, base(), kClass);
    Slot::refill(s.bins[kClass], s.bins[kClass], kClass);
    s.bins[kClass].word.store(0, Order::relaxed);
  }
  void own(unsigned i) {
    require(owned[i].get() == 0, "a block was handed out twice");
    owned[i].set(1);
  }
  void free(unsigned i, Slot* mine = nullptr) {
    owned[i].set(0);
    const StepLimit bound("free", kFreeSteps);
    const std::uint64_t twice = Slot::put_home(&span, base(), 0, std::uint64_t{1} << i, kClass,
                                               [this](unsigned n) -> Slot& { return slot[n]; }, mine);
    require(!twice, "a block was there twice");
  }
  /// Looks of the holder of `s`, from a hint to its span: the span, if it is complete and has left the slot.
  WaitFreeSpan* look(Slot& s, bool& more) {
    for (unsigned steps = 0; steps < 6 && more; ++steps) {
      const StepLimit bound("look", kLookSteps);
      if (WaitFreeSpan* const done = s.look(more)) return done;
    }
    return nullptr;
  }
  /// Takes what the slot has at hand and owns it; how many blocks.
  unsigned refill(Slot& s) {
    auto& bin = s.bins[kClass];
    {
      const StepLimit bound("refill", kRefillSteps);
      if (!Slot::refill(bin, bin, kClass)) return 0;
    }
    return own_word(s);
  }
  unsigned own_word(Slot& s) {
    auto& bin = s.bins[kClass];
    unsigned got = 0;
    for (std::uint64_t word = bin.word.load(Order::relaxed); word; word &= word - 1, ++got)
      own(static_cast<unsigned>(std::countr_zero(word)));
    bin.word.store(0, Order::relaxed);
    return got;
  }
  unsigned held() { return static_cast<unsigned>(owned[0].get() + owned[1].get() + owned[2].get() + owned[3].get()); }

  /// At rest, the holder of the span's slot finds all that was freed by looking and refilling; no other slot has it.
  void find_all() {
    Slot& s = slot[span.owner.load(Order::relaxed)];
    for (bool more = true; more;)
      if (look(s, more)) return require(held() == 0, "a span left its slot with blocks out");
    for (unsigned tries = 0; tries < 4; ++tries) refill(s);
    require(held() == kBlocks, "a block is lost");
  }
};

struct TwoFrees : Heap {  // of the first blocks of a span that nobody has heard of
  static constexpr unsigned kThreads = 3;
  TwoFrees() { slot[0].bins[kClass].current = nullptr; }
  void run(unsigned thread) {
    if (thread < 2) return free(thread);
    bool more = true;
    look(slot[0], more);
    refill(slot[0]);
  }
  void finish() { find_all(); }
};

struct AroundCurrent : Heap {  // the owner leaves the span just when blocks come back to it
  static constexpr unsigned kThreads = 2;
  void run(unsigned thread) {
    if (thread == 0) return free(0), free(1);
    bool more = true;
    look(slot[0], more);
    refill(slot[0]);
    refill(slot[0]);
  }
  void finish() { find_all(); }
};

/// All blocks come home; the owner lets the span go to another slot, which hands all of it out and gets one back. Marks of
/// the first use that are late must not keep the second owner from hearing.
struct HandedToAnother : Heap {
  static constexpr unsigned kThreads = 3;
  Atomic<int> moved;
  HandedToAnother() { slot[0].bins[kClass].current = nullptr; }
  void run(unsigned thread) {
    if (thread == 0) return free(0);
    if (thread == 1) return free(1), free(2), free(3);
    bool more = true;
    if (!look(slot[0], more)) return;
    moved.store(1, Order::relaxed);
    begin_in(slot[1]);
    for (unsigned i = 0; i < kBlocks; ++i) own(i);
    slot[1].bins[kClass].current = nullptr;
    slot[1].bins[kClass].marks = 0;
    free(1);
  }
  void finish() {
    if (moved.load(Order::relaxed)) {  // a hint for it that came late
      bool more = true;
      require(!look(slot[0], more) && slot[0].bins[kClass].list.is_empty(), "a slot has a span that it has given away");
    }
    find_all();
  }
};

/// A slot changes hands while blocks come home to it, as when its thread ends: states are what the table of slots has.
struct TakenOver : Heap {
  static constexpr unsigned kThreads = 3;
  Atomic<int> state{1};  // busy: thread 1 holds it
  TakenOver() { slot[0].bins[kClass].current = nullptr; }
  void run(unsigned thread) {
    if (thread == 0) return free(0), free(1);
    if (thread == 1) {
      bool more = true;
      look(slot[0], more);
      state.store(0, Order::release);  // its thread ends
    } else if (state.exchange(1, Order::acquire) == 0) {
      bool more = true;
      look(slot[0], more);
      refill(slot[0]);
    }
  }
  void finish() { find_all(); }
};

/// All blocks of the span that words come from are back: it stays with its slot as long as it is that.
struct CompleteWhileCurrent : Heap {
  static constexpr unsigned kThreads = 2;
  void run(unsigned thread) {
    if (thread == 0) return free(0), free(1), free(2), free(3);
    bool more = true;
    if (look(slot[0], more)) begin_in(slot[1]);
    refill(slot[0]);
  }
  void finish() {
    if (span.owner.load(Order::relaxed) == 1) refill(slot[0]);
    require(span.owner.load(Order::relaxed) == 0, "a span left its slot while words came from it");
    find_all();
  }
};

/// A span that is complete and listed is asked for blocks before it leaves.
struct UsedBeforeItLeaves : Heap {
  static constexpr unsigned kThreads = 3;
  UsedBeforeItLeaves() {
    slot[0].bins[kClass].current = nullptr;
    free(3);
    bool more = true;
    look(slot[0], more);  // listed
  }
  void run(unsigned thread) {
    if (thread == 0) return free(0);
    if (thread == 1) return free(1), free(2);
    bool more = true;
    for (unsigned steps = 0; steps < 6 && more; ++steps) {
      if (slot[0].leaving && !refill(slot[0])) return;
      if (slot[0].look(more)) return require(held() == 0, "a span left its slot with blocks out");
    }
  }
  void finish() {
    if (span.size_class.load(Order::relaxed) != kNoClass) find_all();
  }
};

/// The holder ends and stops taking words from the span, whose marks it has taken or not, while blocks come home.
template <bool kMarksTaken> struct Closed : Heap {
  static constexpr unsigned kThreads = 2;
  Closed() {
    free(3);
    for (bool more = true; more;) look(slot[0], more);  // what was hinted at was current
    if (kMarksTaken) slot[0].bins[kClass].marks = span.bin.take_marks();
  }
  void run(unsigned thread) {
    if (thread == 0) return free(0), free(1);
    slot[0].close(kClass, [this](unsigned n) -> Slot& { return slot[n]; });
    bool more = true;
    look(slot[0], more);
    refill(slot[0]);
  }
  void finish() { find_all(); }
};

/// Blocks go home by way of the slot of whoever frees them: two by two here, and who is to be told of it is told a step later.
struct SentTogether : Heap {
  static constexpr unsigned kThreads = 2;
  SentTogether() {
    slot[0].bins[kClass].current = nullptr;
    slot[1].open(1);
  }
  void put(Slot::Word word) {
    const StepLimit bound("free", kFreeSteps);
    require(word.at == base() && word.size_class == kClass, "blocks left that were never sent");
    const std::uint64_t twice =
        Slot::put_home(&span, base(), 0, word.bits, kClass, [this](unsigned n) -> Slot& { return slot[n]; }, &slot[1]);
    require(!twice, "a block was there twice");
  }
  /// As WaitFreeSlab does it, one thing at a time.
  bool step() {
    if (slot[1].tidings) {
      const StepLimit bound("telling", 2);
      slot[1].tidings.tell();
    } else if (!slot[1].departures.is_empty()) {
      put(slot[1].departures.take());
    } else {
      return false;
    }
    return true;
  }
  void send(unsigned i) {
    owned[i].set(0);
    slot[1].out_room[kClass] = i % 2;  // as for smaller blocks: the second joins the first
    Slot::Word leaves;
    require(slot[1].send(kClass, base(), i, leaves), "a block waits twice");
    if (leaves.bits) slot[1].departures.push(leaves);
  }
  void run(unsigned thread) {
    if (thread == 0) {
      for (unsigned i = 0; i < kBlocks; ++i) send(i);
      step();
      if (const Slot::Word out = Slot::take_out(slot[1].bins[kClass], kClass); out.bits) slot[1].departures.push(out);
      while (step()) {
      }
      return;
    }
    bool more = true;
    look(slot[0], more);
    refill(slot[0]);
  }
  void finish() {
    if (span.size_class.load(Order::relaxed) == kNoClass) return require(held() == 0, "a span left its slot with blocks out");
    find_all();
  }
};

/// The owner frees some itself, without a hint, while others come home; another thread with a slot of its own frees the rest.
template <bool kIsCurrent> struct FreesItsOwn : Heap {
  static constexpr unsigned kThreads = 3;
  FreesItsOwn() {
    if (!kIsCurrent) slot[0].bins[kClass].current = nullptr;
  }
  void run(unsigned thread) {
    if (thread == 0) return free(0);
    if (thread == 1) return free(1, &slot[1]), slot[1].tidings.tell();
    free(2, &slot[0]);
    slot[0].tidings.tell();
    bool more = true;
    look(slot[0], more);
    refill(slot[0]);
  }
  void finish() { find_all(); }
};

/// The same slot uses a complete span again, which it kept: marks of the first use that are late must not hide what the second brings.
struct KeptAndUsedAgain : Heap {
  static constexpr unsigned kThreads = 3;
  KeptAndUsedAgain() { slot[0].bins[kClass].current = nullptr; }
  void run(unsigned thread) {
    if (thread == 0) return free(0);
    if (thread == 1) return free(1), free(2), free(3);
    bool more = true;
    WaitFreeSpan* const s = look(slot[0], more);
    if (!s) return;
    require(slot[0].keep_spare(1, s) && slot[0].take_spare(1) == s && !slot[0].take_spare(1), "a span that was kept is not there");
    begin_in(slot[0]);
    for (unsigned i = 0; i < kBlocks; ++i) own(i);
    slot[0].bins[kClass].current = nullptr;
    slot[0].bins[kClass].marks = 0;
    free(1);
  }
  void finish() { find_all(); }
};

/// The owner has used up a word of the span and fetches the next one ahead of need, while blocks come home.
template <bool kIsCurrent> struct Restocked : Heap {
  static constexpr unsigned kThreads = 3;
  Restocked() {
    if (!kIsCurrent) {
      slot[0].bins[kClass].current = nullptr;
      free(3, &slot[0]);  // and so it is listed
    }
  }
  void restock(bool refill_comes_first = false) {
    slot[0].wanted.want(kClass);
    for (unsigned steps = 0; steps < 3; ++steps) {
      if (steps == 1 && refill_comes_first) Slot::refill(slot[0].bins[kClass], slot[0].bins[kClass], kClass);
      const StepLimit bound("restock", kRestockSteps);
      slot[0].restock();
    }
  }
  void run(unsigned thread) {
    if (thread < 2) return free(thread);
    restock();
    restock();  // of a class that has its word
    own_word(slot[0]);
    restock(true);
    own_word(slot[0]);
    bool more = true;
    look(slot[0], more);
  }
  void finish() { find_all(); }
};

TEST(WaitFreeSlot, Restocked) {
  check<Restocked<true>>("two frees while the next word of the span is fetched");
  check<Restocked<false>>("... of a span that is listed");
}
TEST(WaitFreeSlot, TwoFrees) { check<TwoFrees>("two frees against look and refill"); }
TEST(WaitFreeSlot, AroundCurrent) { check<AroundCurrent>("two frees against an owner that leaves the span"); }
TEST(WaitFreeSlot, CompleteWhileCurrent) { check<CompleteWhileCurrent>("four frees while words come from the span"); }
TEST(WaitFreeSlot, UsedBeforeItLeaves) { check<UsedBeforeItLeaves>("three frees of a span that is used again before it leaves"); }
TEST(WaitFreeSlot, Closed) {
  check<Closed<false>>("two frees while the span is closed");
  check<Closed<true>>("... with a mark taken before");
}
TEST(WaitFreeSlot, HandedToAnother) { check<HandedToAnother>("four frees, then the span goes to another slot"); }
TEST(WaitFreeSlot, TakenOver) { check<TakenOver>("two frees while the slot is taken over"); }

TEST(WaitFreeSlot, SentTogether) { check<SentTogether>("four frees, sent two by two"); }
TEST(WaitFreeSlot, FreesItsOwn) {
  check<FreesItsOwn<false>>("three frees, one of them the owner's");
  check<FreesItsOwn<true>>("... while words come from the span");
}
TEST(WaitFreeSlot, KeptAndUsedAgain) { check<KeptAndUsedAgain>("four frees, then the slot uses the span again"); }

TEST(WaitFreeSlot, EveryOrderIsNeeded) {
  const std::vector<std::string> needless =
      needless_orders<TwoFrees, AroundCurrent, HandedToAnother, TakenOver>("WaitFreeBin<");
  for (const std::string& order : needless) EXPECT_NE(order, "restart: exchange");
}

/// The seeded bug that the late mark stands for: the owner is read before the block is put back.
struct OwnerReadTooEarly : HandedToAnother {
  void free(unsigned i) {
    owned[i].set(0);
    const unsigned owner = span.owner.load(Order::relaxed);
    const auto put = span.bin.put(0, std::uint64_t{1} << i, kBlocks);
    if (put.woke || put.completed) slot[owner].hints.announce(Slot::bucket_of(base()));
  }
  void run(unsigned thread) {
    if (thread == 0) free(0);
    else HandedToAnother::run(thread);
  }
};
TEST(WaitFreeSlot, FindsAnOwnerReadTooEarly) {
  const Report report = explore<OwnerReadTooEarly>();
  EXPECT_TRUE(report.found("is lost")) << report.text();
}

}  // namespace
}  // namespace mortise::model
