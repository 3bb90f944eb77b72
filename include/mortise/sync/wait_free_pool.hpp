// A pool of numbers that every thread takes from and puts into: one bit a number, claimed by a single fetch-and.
//
//   words  ┌ 0110... ┐┌ 0000... ┐┌ 1111... ┐     1: the number is in the pool
//                ▲ take clears the lowest bit it sees; whoever's fetch-and found it set has the number
//
// 1. put: set the bit. 2. take: from the word that was last put into, each word once round; a bit that another thread claimed
// in between is one try lost, and after kTries lost tries the call gives up. Only the claimed bit of what the fetch-and returns is
// looked at: that is one instruction of the machine, the whole word would be a loop (sync/wait_free_bin.hpp).
//
// A call finds none only if at some moment each word was seen empty, or if others took kTries numbers during this one call. So
// with kTries more numbers in the pool than others take during a call, take never fails: that is the margin a reserve keeps.
// No order among numbers is promised (after the non-linearisable lists of [OuyangZhu22]).
//
// Progress: wait-free; put two steps, take at most 1 + kWords + 2 kTries. A stopped thread keeps at most the number it has claimed.
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
  static constexpr unsigned kWords = (kNumbers + 63) / 64;
  static constexpr unsigned kTakeSteps = 1 + kWords + 2 * kTries;
  static constexpr unsigned kNone = ~0u;

  constexpr WaitFreePool() noexcept = default;

  /// Gives number `i` to the pool. The caller has it. Wait-free, two steps.
  void put(unsigned i) noexcept {
    words_[i / 64].fetch_or(std::uint64_t{1} << i % 64, Order::release);  // pairs with the acquire in take()
    near_.store(i / 64, Order::relaxed);
  }

  /// A number that is now the caller's, or kNone. Wait-free.
  unsigned take() noexcept {
    unsigned tries = kTries;
    const unsigned start = near_.load(Order::relaxed);
    for (unsigned k = 0; k < kWords; ++k) {
      const unsigned w = (start + k) % kWords;
      std::uint64_t word = words_[w].load(Order::relaxed);  // a guess: the fetch-and decides
      while (word) {
        const auto lowest = static_cast<unsigned>(std::countr_zero(word));
        const std::uint64_t bit = std::uint64_t{1} << lowest;
        if (words_[w].fetch_and(~bit, Order::acquire) & bit) return w * 64 + lowest;  // pairs with the release in put()
        if (--tries == 0) return kNone;
        word = words_[w].load(Order::relaxed);
      }
    }
    return kNone;
  }

  /// How many are in the pool: exact when nobody puts or takes.
  unsigned count() const noexcept {
    unsigned sum = 0;
    for (const auto& word : words_) sum += static_cast<unsigned>(std::popcount(word.load(Order::relaxed)));
    return sum;
  }

 private:
  Atomic<std::uint64_t> words_[kWords];
  Atomic<unsigned> near_;  ///< where it is worth to look first; any value does
};

}  // namespace mortise
