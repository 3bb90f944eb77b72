// A pool of numbers that every thread takes from and puts into: one bit a number, claimed by a single fetch-and.
//
//   marks  ┌ 1 0 1 ... ┐                          bit w: word w is likely to hold a number (a hint)
//   words  ┌ 0110... ┐┌ 0000... ┐┌ 1111... ┐     1: the number is in the pool
//                ▲ take clears the lowest bit it sees; whoever's fetch-and found it set has the number
//
// 1. put: set the bit, then the word's mark.
// 2. take: from a word that is marked, a few such words at most; if none of them has one, from each word once round. A bit that another
//    thread claimed in between is one try lost, and after kTries lost tries the call gives up. Only the claimed bit of what the fetch-and
//    returns is looked at: that is one instruction of the machine, the whole word would be a loop (sync/wait_free_bin.hpp).
// 3. Who takes the last number that he sees in a word clears its mark, and sets it again if there is one after all: whoever puts one in
//    later sets the mark later, too. A thread that stops in between hides the word from the first look only.
// 4. take_this: a number by its name, if it is there: the same fetch-and, once.
//
// A take costs the same however many numbers the pool has room for, as long as it has some.
// A call finds none only if at some moment each word was seen empty, or if others took kTries numbers during this one call. So
// with kTries more numbers in the pool than others take during a call, take never fails: that is the margin a reserve keeps.
// No order among numbers is promised (after the non-linearisable lists of [OuyangZhu22]); low ones are mostly taken first.
//
// Progress: wait-free; put two steps, take at most kTakeSteps, take_this kTakeThisSteps. A stopped thread keeps the number it has claimed.
#pragma once

#include <bit>
#include <cstdint>

#include "mortise/core/progress.hpp"
#include "mortise/sync/atomics.hpp"

namespace mortise {

/// Room for `kNumbers` numbers. All zero is a valid empty pool. Any thread, any operation.
template <unsigned kNumbersT, unsigned kTriesT = 64> class WaitFreePool {
 public:
  static constexpr const char* kName = "WaitFreePool";
  static constexpr Guarantee kGuarantee = Guarantee::wait_free;
  static constexpr unsigned kNumbers = kNumbersT, kTries = kTriesT;
  static constexpr unsigned kWords = (kNumbers + 63) / 64, kMarkWords = (kWords + 63) / 64;
  static constexpr unsigned kLooks = 4;  ///< marked words that a take looks into before it goes round
  static constexpr unsigned kPutSteps = 2, kTakeSteps = kLooks * (kMarkWords + 4) + kWords + 2 * kTries + 3;
  static constexpr unsigned kTakeThisSteps = 5;
  static constexpr unsigned kNone = ~0u;

  constexpr WaitFreePool() noexcept = default;

  /// Gives number `i` to the pool. The caller has it. Wait-free, two steps.
  void put(unsigned i) noexcept {
    words_[i / 64].fetch_or(std::uint64_t{1} << i % 64, Order::release);  // pairs with the acquire in claim()
    mark(i / 64);
  }

  /// A number that is now the caller's, or kNone. Wait-free.
  unsigned take() noexcept {
    unsigned tries = kTries;
    for (unsigned k = 0; k < kLooks; ++k) {
      const unsigned w = marked();
      if (w == kNone) break;
      if (const unsigned i = claim(w, tries); i != kNone) return i;
      unmark(w);
    }
    for (unsigned w = 0; w < kWords && tries; ++w)
      if (const unsigned i = claim(w, tries); i != kNone) return i;
    return kNone;
  }

  /// Number `i`, if it is in the pool: it is the caller's now. False also when another took it at that moment. Wait-free.
  bool take_this(unsigned i) noexcept {
    const std::uint64_t bit = std::uint64_t{1} << i % 64, word = words_[i / 64].load(Order::relaxed);
    if (!(word & bit)) return false;
    if (!(words_[i / 64].fetch_and(~bit, Order::acquire) & bit)) return false;  // pairs with the release in put()
    if (word == bit) unmark(i / 64);
    return true;
  }

  /// How many are in the pool: exact when nobody puts or takes.
  unsigned count() const noexcept {
    unsigned sum = 0;
    for (const auto& word : words_) sum += static_cast<unsigned>(std::popcount(word.load(Order::relaxed)));
    return sum;
  }

  /// Whether each word with a number in it is marked: when nobody puts or takes, and nobody stopped while he did.
  bool is_sound() const noexcept {
    for (unsigned w = 0; w < kWords; ++w)
      if (words_[w].load(Order::relaxed) && !(marks_[w / 64].load(Order::relaxed) >> w % 64 & 1)) return false;
    return true;
  }

 private:
  /// A number of word `w`, or kNone: it is empty, or all `tries` are lost.
  unsigned claim(unsigned w, unsigned& tries) noexcept {
    std::uint64_t word = words_[w].load(Order::relaxed);  // a guess: the fetch-and decides
    while (word) {
      const auto lowest = static_cast<unsigned>(std::countr_zero(word));
      const std::uint64_t bit = std::uint64_t{1} << lowest;
      if (words_[w].fetch_and(~bit, Order::acquire) & bit) {  // pairs with the release in put()
        if (word == bit) unmark(w);
        return w * 64 + lowest;
      }
      if (--tries == 0) return kNone;
      word = words_[w].load(Order::relaxed);
    }
    return kNone;
  }
  unsigned marked() const noexcept {
    for (unsigned m = 0; m < kMarkWords; ++m)
      if (const std::uint64_t marks = marks_[m].load(Order::relaxed)) return m * 64 + static_cast<unsigned>(std::countr_zero(marks));
    return kNone;
  }
  /// Release and acquire: who clears a mark finds the numbers of those who had set it.
  void mark(unsigned w) noexcept { marks_[w / 64].fetch_or(std::uint64_t{1} << w % 64, Order::release); }
  void unmark(unsigned w) noexcept {
    marks_[w / 64].fetch_and(~(std::uint64_t{1} << w % 64), Order::acquire);
    if (words_[w].load(Order::relaxed)) mark(w);
  }

  Atomic<std::uint64_t> marks_[kMarkWords];
  Atomic<std::uint64_t> words_[kWords];
};

}  // namespace mortise
