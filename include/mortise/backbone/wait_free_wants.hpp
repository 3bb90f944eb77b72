// The classes that have used up a word in a slot of wfslab and want the next one, as bits: those that are about to run out are served by
// errands, one a turn, and none is forgotten because another ran out after it.
//
//   malloc: the last block of a word ─ want(c) ─► │ 0 0 1 0 1 ... │ ─ take ─► the class whose next word is fetched
//
// Its holder's. Progress: wait-free, O(1). Placement: in WaitFreeSlot.
#pragma once

#include <bit>
#include <cstdint>

#include "mortise/core/core.hpp"

namespace mortise {

/// Of classes 1 to `kClasses`. Zero is valid: nothing is wanted.
template <unsigned kClasses> class WaitFreeWants {
 public:
  MORTISE_HOT void want(unsigned c) noexcept { words_[c / 64] |= bit(c); }
  void drop(unsigned c) noexcept { words_[c / 64] &= ~bit(c); }
  bool wants(unsigned c) const noexcept { return words_[c / 64] & bit(c); }
  bool is_empty() const noexcept {
    std::uint64_t any = 0;
    for (const std::uint64_t word : words_) any |= word;
    return !any;
  }
  /// One of them, which is wanted no more: round and round, so that each comes to its turn. kNoClass when there is none.
  unsigned take() noexcept {
    std::uint64_t from = ~std::uint64_t{0} << last_ % 64 << 1;  // behind the one that was taken last
    for (unsigned i = 0, w = last_ / 64; i <= kWords; ++i, w = w + 1 < kWords ? w + 1 : 0, from = ~std::uint64_t{0}) {
      const std::uint64_t word = words_[w] & from;
      if (!word) continue;
      last_ = w * 64 + static_cast<unsigned>(std::countr_zero(word));
      words_[w] &= ~bit(last_);
      return last_;
    }
    return kNoClass;
  }
  void clear() noexcept {
    for (std::uint64_t& word : words_) word = 0;
  }

 private:
  static constexpr unsigned kWords = kClasses / 64 + 1;
  static constexpr std::uint64_t bit(unsigned c) noexcept { return std::uint64_t{1} << c % 64; }
  std::uint64_t words_[kWords] = {};
  unsigned last_ = 0;
};

}  // namespace mortise
