// A bin of numbered things that any thread puts into and one thread, its owner, takes from: a bitmap of two levels.
//
//   marks    ┌ 0 1 0 0 1 ... ┐   bit w: word w may hold something              (a hint: may be stale, never missing)
//   words    ┌ 00000000 ┐┌ 01100000 ┐┌ ... ┐   bit i: number i is in the bin    (the truth)
//
// 1. put: add the bit of the number, which is not there, to its word. Whoever made the word non-empty also sets its mark; whoever set a
// mark is told so, and tells the owner by the next level up (a bin of bins). 2. take: the owner takes all marks, then the words they
// name, whole, each by one exchange. 3. For bins of blocks: whoever fills a word counts it; whoever sees all words counted is told that
// everything is back. 4. announce: for bins of bins, whose numbers may be there already.
//
// Each is one instruction of the machine. An or whose result is a whole word is none on x86-64: compilers make a loop of it that tries
// again as often as others come in between, and wait-freedom would be a claim about the source alone. So a put adds, and where a bit
// may be set already only that bit is asked for. tests/golden looks for such loops in what ships.
//
// Nobody repeats anything: a put is one to three read-modify-writes, and there is no link that a stopped thread could leave
// half made. A thread stopped within put hides what its own step was to announce - the word it made non-empty, or the bin -
// and no more. Marks set late, by a thread that was stopped, only make the owner look at an empty word.
//
// Progress: wait-free, every operation. Memory orders: a block's freeing thread releases by `words` and the owner acquires by it;
// `marks` and `full` release what their setter saw in `words`, so that the owner who sees the mark finds the bit.
// Source: bitmaps with remote frees as in [Leijen19] (deferred lists), made of single steps after [BlellochWei20].
// Placement: needs no memory of the things themselves, which may be purged.
#pragma once

#include <bit>
#include <cstdint>

#include "mortise/core/inline.hpp"
#include "mortise/core/progress.hpp"
#include "mortise/sync/atomics.hpp"

namespace mortise {

/// Room for `kWords` * `kWordBits` numbers. All zero is a valid empty bin.
template <unsigned kWords, unsigned kWordBits = 64> class WaitFreeBin {
  static_assert(kWords <= 64 && kWordBits <= 64, "the marks of all words fit one word");

 public:
  static constexpr const char* kName = "WaitFreeBin";
  static constexpr Guarantee kGuarantee = Guarantee::wait_free;
  static constexpr unsigned kPutSteps = 3, kAnnounceSteps = 2;  ///< shared accesses, at most; a take has two
  static constexpr unsigned kNumbers = kWords * kWordBits;

  struct Put {
    std::uint64_t was_there = 0;  ///< what was in the bin already; nothing else happened
    bool woke = false;            ///< a mark was set: the owner may have to be told
    bool completed = false;       ///< all of the first `capacity` numbers are in the bin
  };

  constexpr WaitFreeBin() noexcept = default;

  /// All numbers of word `w` when the bin is for `capacity` numbers.
  static constexpr std::uint64_t all_of(unsigned w, unsigned capacity) noexcept {
    const unsigned from = w * kWordBits;
    const unsigned n = capacity - from < kWordBits ? capacity - from : kWordBits;
    return ~std::uint64_t{0} >> (64 - n);
  }
  static constexpr unsigned words_for(unsigned capacity) noexcept { return (capacity + kWordBits - 1) / kWordBits; }

  /// Puts the numbers `bits` of word `w` in. Any thread that has them. Wait-free, O(1).
  MORTISE_HOT Put put(unsigned w, std::uint64_t bits, unsigned capacity) noexcept {
    Put result;
    // Release: what was done with the block, for the owner. Acquire: what others did with blocks of the word, for whoever
    // learns from our count that all are back.
    const std::uint64_t before = words_[w].fetch_add(bits, Order::acq_rel);
    result.was_there = before & bits;
    if (result.was_there) [[unlikely]] {
      words_[w].fetch_sub(bits, Order::relaxed);  // a crime: what it carried over is taken back
      return result;
    }
    // Release: pairs with take_marks(), so that who takes the mark finds the bit. Acquire: pairs with restart(), so that a mark
    // that is late, and lands in the next use of the bin, tells that use's owner.
    const std::uint64_t mark = std::uint64_t{1} << w;
    if (before == 0) result.woke = !(marks_.fetch_or(mark, Order::acq_rel) & mark);
    if ((before | bits) == all_of(w, capacity))
      result.completed = full_.fetch_add(1, Order::release) + 1 == words_for(capacity);  // pairs with is_complete()
    return result;
  }
  MORTISE_HOT Put put(unsigned number, unsigned capacity) noexcept {
    return put(number / kWordBits, std::uint64_t{1} << number % kWordBits, capacity);
  }

  /// Puts a number in that may be there already. Any thread. Wait-free, O(1).
  void announce(unsigned number) noexcept {
    const unsigned w = number / kWordBits;
    const std::uint64_t bit = std::uint64_t{1} << number % kWordBits;
    if (words_[w].fetch_or(bit, Order::acq_rel) & bit) return;  // orders as in put()
    marks_.fetch_or(std::uint64_t{1} << w, Order::acq_rel);
  }

  // -- the owner's

  /// The words that may hold something, as bits; they are unmarked. Wait-free, one step.
  std::uint64_t take_marks() noexcept { return marks_.exchange(0, Order::acquire); }
  /// Whether there are marks: a look that may be old. Who sees none and goes away is told by the next put.
  bool is_marked() const noexcept { return marks_.load(Order::relaxed) != 0; }

  /// All numbers of word `w`, which leave the bin. Wait-free, at most two steps.
  std::uint64_t take(unsigned w, unsigned capacity) noexcept {
    const std::uint64_t bits = words_[w].exchange(0, Order::acquire);
    if (bits == all_of(w, capacity)) full_.fetch_sub(1, Order::relaxed);  // only the owner ever relies on the count
    return bits;
  }
  /// True when the first `words` words, all that are open, are full; the owner is between two operations. What was done with any
  /// block happened before.
  bool is_complete(unsigned words) const noexcept { return full_.load(Order::acquire) == words; }

  /// Word `w` holds nothing, whatever lay there: its numbers are about to be handed out for the first time.
  void open(unsigned w) noexcept { words_[w].store(0, Order::relaxed); }
  /// A complete bin is used for something else, perhaps by another owner, who has said so where a waking put looks. Words are
  /// opened one by one as they are handed out.
  void restart() noexcept {
    full_.store(0, Order::relaxed);
    marks_.exchange(0, Order::release);  // whoever marks from here on sees the new owner
  }

  /// Asks for the marks' line and that of `number`, which will be changed soon. Any thread; waits for nothing.
  void ask_for(unsigned number) const noexcept {
    prefetch_to_write(this);
    prefetch_to_write(&words_[number / kWordBits]);
  }

  /// How many of the first `n` words' numbers are in the bin: exact when nobody puts or takes.
  unsigned count(unsigned n) const noexcept {
    unsigned sum = 0;
    for (unsigned w = 0; w < n; ++w) sum += static_cast<unsigned>(std::popcount(words_[w].load(Order::relaxed)));
    return sum;
  }
  /// Whether the count of full words is right: when nobody puts or takes. O(words).
  bool is_sound(unsigned words, unsigned capacity) const noexcept {
    unsigned full = 0;
    for (unsigned w = 0; w < words; ++w) full += words_[w].load(Order::relaxed) == all_of(w, capacity);
    return full == full_.load(Order::relaxed);
  }

 private:
  Atomic<std::uint64_t> marks_;
  Atomic<std::uint32_t> full_;  ///< words all of whose numbers are in the bin, as far as counted yet
  Atomic<std::uint64_t> words_[kWords];
};

}  // namespace mortise
