// The words of blocks on their way home: a short queue, so that a free need not touch the span that its block came from.
//
//   free: leaves ─► │ 4 │ 3 │ 2 │ 1 │ ─► malloc: lines of its span are asked for ─► next malloc: put home
//
// Between two calls of malloc lies time enough for a line to come, and too little for another thread to take it back. Whoever finds the
// queue full puts the first word home at once.
// What is on its way is its thread's, as the blocks in its slot are. Progress: wait-free, O(1). Placement: in WaitFreeSlot.
#pragma once

#include <bit>

#include "mortise/backbone/wait_free_span.hpp"

namespace mortise {

/// Freed blocks of one word of a span, from `at` on.
struct WaitFreeWord {
  std::byte* at = nullptr;
  std::uint64_t bits = 0;
  unsigned size_class = kNoClass;
};

/// Where such a word goes: it is number `number` of `span`, which starts at `base`.
struct WaitFreeDeparture {
  WaitFreeSpan* span;
  std::byte* base;
  unsigned number;
};

/// Its thread's; others may read how many blocks are on their way, of which class: exact when it rests.
class WaitFreeDepartures {
 public:
  static constexpr unsigned kStages = 4;

  bool is_empty() const noexcept { return waiting_ == 0; }
  bool is_full() const noexcept { return waiting_ == kStages; }

  /// A word sets out; there is room.
  void push(const WaitFreeWord& word) noexcept {
    Stage& s = stages_[(first_ + waiting_++) % kStages];
    s.bits.store(word.bits, Order::relaxed);
    s.size_class.store(word.size_class, Order::relaxed);
    s.at = word.at;
  }
  /// The word that set out first; there is one.
  WaitFreeWord first() const noexcept {
    const Stage& s = stages_[first_];
    return {s.at, s.bits.load(Order::relaxed), s.size_class.load(Order::relaxed)};
  }
  /// The same, which is on its way no more.
  WaitFreeWord take() noexcept {
    const WaitFreeWord due = first();
    stages_[first_].bits.store(0, Order::relaxed);
    first_ = (first_ + 1) % kStages;
    --waiting_;
    is_asked = false;
    return due;
  }

  /// How many blocks of which class stage `i` has. Any thread.
  unsigned count(unsigned i, unsigned& size_class) const noexcept {
    size_class = stages_[i].size_class.load(Order::relaxed);
    return static_cast<unsigned>(std::popcount(stages_[i].bits.load(Order::relaxed)));
  }

  bool is_asked = false;  ///< the lines that the first word will touch have been asked for

 private:
  struct Stage {
    Atomic<std::uint64_t> bits;
    Atomic<std::uint32_t> size_class;
    std::byte* at = nullptr;
  };
  unsigned first_ = 0, waiting_ = 0;
  Stage stages_[kStages];
};

}  // namespace mortise
