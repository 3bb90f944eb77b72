// Bitmaps over words that somebody else owns: which blocks of a span are free.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mortise {

/// Sets bit `i` (0..63) of `word` and counts in `again` if it was set before: two instructions on x86-64.
inline void set_bit(std::uint64_t& word, std::size_t i, std::uint64_t& again) noexcept {
#if defined(__x86_64__)
  asm("btsq %[i], %[word]\n adcq $0, %[again]" : [word] "+r"(word), [again] "+r"(again) : [i] "r"(i) : "cc");
#else
  again += word >> i & 1;
  word |= std::uint64_t{1} << i;
#endif
}

/// The highest bit of a word that is not zero.
inline unsigned top_bit(std::uint64_t word) noexcept { return 63U ^ static_cast<unsigned>(__builtin_clzll(word)); }

/// Whether there are bits and all lie side by side.
inline bool is_one_run(std::uint64_t word) noexcept { return word && !(word & (word + (word & -word))); }

/// Reads the bits of some words. Not synchronised. Bits beyond the end are never set.
class Bitmap {
 public:
  static constexpr unsigned kWordBits = 64;
  explicit Bitmap(const std::uint64_t* words) noexcept : words_(words) {}

  bool test(unsigned i) const noexcept { return words_[i / kWordBits] >> (i % kWordBits) & 1; }

  /// Calls see(first, end) for each run of set bits among the first `bits`. O(bits).
  template <class See> void each_run(unsigned bits, See see) const noexcept {
    for (unsigned i = 0, end; i < bits; i = end + 1) {
      while (i < bits && !test(i)) i += words_[i / kWordBits] >> (i % kWordBits) ? 1 : kWordBits - i % kWordBits;
      for (end = i; end < bits && test(end);) ++end;
      if (i < end) see(i, end);
    }
  }

  /// How many of the first `bits` bits are set. O(bits / 64).
  unsigned count(unsigned bits) const noexcept {
    unsigned n = 0;
    for (unsigned w = 0; w * kWordBits < bits; ++w) n += static_cast<unsigned>(__builtin_popcountll(words_[w]));
    return n;
  }

 private:
  const std::uint64_t* words_;
};

}  // namespace mortise
