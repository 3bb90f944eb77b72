// Bitmaps over words that somebody else owns: which blocks of a span are free.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mortise {

/// A view of `bits` bits. Not synchronised. Bits beyond the end are never set.
class Bitmap {
 public:
  static constexpr unsigned kWordBits = 64;
  explicit Bitmap(std::uint64_t* words) noexcept : words_(words) {}

  bool test(unsigned i) const noexcept { return words_[i / kWordBits] >> (i % kWordBits) & 1; }
  void set(unsigned i) noexcept { words_[i / kWordBits] |= std::uint64_t{1} << (i % kWordBits); }
  void clear(unsigned i) noexcept { words_[i / kWordBits] &= ~(std::uint64_t{1} << (i % kWordBits)); }
  std::uint64_t& word(unsigned w) noexcept { return words_[w]; }

  /// How many of the first `bits` bits are set. O(bits / 64).
  unsigned count(unsigned bits) const noexcept {
    unsigned n = 0;
    for (unsigned w = 0; w * kWordBits < bits; ++w) n += static_cast<unsigned>(__builtin_popcountll(words_[w]));
    return n;
  }

 private:
  std::uint64_t* words_;
};

/// Sets bits that mostly fall into the same word: that word is kept at hand and written when another one is needed, so that a
/// run of neighbours does not wait for its own stores.
class BitRun {
 public:
  explicit BitRun(std::uint64_t* words) noexcept : words_(words) {}
  ~BitRun() { flush(); }
  BitRun(const BitRun&) = delete;
  BitRun& operator=(const BitRun&) = delete;

  /// Sets bit `i`; false when it was set already.
  bool set(unsigned i) noexcept {
    const unsigned w = i / Bitmap::kWordBits;
    if (w != at_) {
      flush();
      at_ = w;
      word_ = words_[w];
      if (w < lowest_) lowest_ = w;
    }
    const std::uint64_t bit = std::uint64_t{1} << (i % Bitmap::kWordBits);
    const bool fresh = !(word_ & bit);
    word_ |= bit;
    return fresh;
  }
  /// The lowest word touched, or `than` when that is lower.
  std::uint16_t lowest(std::uint16_t than) const noexcept { return lowest_ < than ? static_cast<std::uint16_t>(lowest_) : than; }

 private:
  static constexpr unsigned kNone = ~0u;
  void flush() noexcept {
    if (at_ != kNone) words_[at_] = word_;
  }
  std::uint64_t* words_;
  std::uint64_t word_ = 0;
  unsigned at_ = kNone, lowest_ = kNone;
};

}  // namespace mortise
