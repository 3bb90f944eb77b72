// The words of blocks on their way home: the lines of its span that a put will touch are asked for two departures before it is made.
//
//   leaves ─► lines of its span are asked for ─► ... ─► due: put home
//
// Between two departures of a thread lie some dozens of calls: long enough for a line to come, short enough for it to be there still; where
// departures follow each other at once, two are. Nobody looks at a line in between, to see who will have to be told: that would wait for
// it whenever another thread has it, and most departures tell nobody.
// What is on its way is its thread's, as the blocks in its slot are. Progress: wait-free, O(1). Placement: in WaitFreeSlot.
#pragma once

#include "mortise/backbone/wait_free_span.hpp"

namespace mortise {

/// Freed blocks of one word of a span, from `at` on.
struct WaitFreeWord {
  std::byte* at = nullptr;
  std::uint64_t bits = 0;
  unsigned size_class = kNoClass;
};

/// Such a word, and where it goes: word `number` of `span`, which starts at `base`.
struct WaitFreeDeparture {
  WaitFreeWord word;
  WaitFreeSpan* span = nullptr;
  std::byte* base = nullptr;
  unsigned number = 0;
};

/// Its thread's; others may read how many blocks are on their way, of which class: exact when it rests.
class WaitFreeDepartures {
 public:
  static constexpr unsigned kStages = 2;

  /// Departs; the one that did so kStages departures ago is due, if it has bits.
  WaitFreeDeparture pass(const WaitFreeDeparture& leaves) noexcept {
    Stage& s = stages_[turn_];
    turn_ ^= 1;
    const WaitFreeDeparture due = read(s);
    s.bits.store(leaves.word.bits, Order::relaxed);
    s.size_class.store(leaves.word.size_class, Order::relaxed);
    s.at = leaves.word.at;
    s.span = leaves.span;
    s.base = leaves.base;
    s.number = leaves.number;
    return due;
  }

  /// How many blocks of which class stage `i` has. Any thread.
  unsigned count(unsigned i, unsigned& size_class) const noexcept {
    size_class = stages_[i].size_class.load(Order::relaxed);
    return static_cast<unsigned>(std::popcount(stages_[i].bits.load(Order::relaxed)));
  }

 private:
  struct Stage {
    Atomic<std::uint64_t> bits;
    Atomic<std::uint32_t> size_class;
    unsigned number = 0;
    std::byte *at = nullptr, *base = nullptr;
    WaitFreeSpan* span = nullptr;
  };
  static WaitFreeDeparture read(const Stage& s) noexcept {
    return {{s.at, s.bits.load(Order::relaxed), s.size_class.load(Order::relaxed)}, s.span, s.base, s.number};
  }
  static_assert(kStages == 2, "the turn of one is over when the other's begins");
  Stage stages_[kStages];
  unsigned turn_ = 0;
};

}  // namespace mortise
