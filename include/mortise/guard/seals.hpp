// The two words behind a block that say that it is held, and where it ends. No allocator's state but two secrets and a table.
//
//   ┌──────────────┬────────┬───────┬──────┐
//   │ n bytes      │ canary │ slack │ seal │   gap: what lies between the n bytes and the block's end, both words included; with less
//   └──────────────┴────────┴───────┴──────┘   than 16 the two overlap, and the seal is whole
//
// canary: a secret word. seal: another one, xor the gap times kSpread; or `released`, which is no seal. What stands behind the request
// where they overlap is a function of the gap alone: a table has it.
// Used by guard/sealed_tail.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "mortise/core/block.hpp"
#include "mortise/core/inline.hpp"
#include "mortise/core/units.hpp"
#include "mortise/os/entropy.hpp"

namespace mortise {

class Seals {
 public:
  static constexpr std::size_t kBytes = 8;
  static constexpr std::size_t kFarthest = 0xFF;  ///< the longest gap that the table has

  /// The secrets, once.
  void draw() noexcept {
    if (canary_) return;
    constexpr std::uint64_t kNoZeros = 0x0101'0101'0101'0101;  // behind a request: a zero ends a string
    canary_ = os::entropy() | kNoZeros;
    seal_ = os::entropy() | kNoZeros;
    for (std::size_t gap = 0; gap < kBytes; ++gap) behind_[gap] = released();  // which nobody has
    for (std::size_t gap = kBytes; gap <= kFarthest; ++gap) {
      const std::size_t bits = 8 * (gap - kBytes);  // that the seal leaves of the canary
      behind_[gap] = bits >= 64 ? canary_ : (seal_of(gap) << bits) | (canary_ & ((std::uint64_t{1} << bits) - 1));
    }
  }

  MORTISE_HOT Block seal(Block outer, std::size_t n) const noexcept {
    store(outer.ptr + n, canary_);
    store(outer.ptr + outer.size - kBytes, seal_of(outer.size - n));
    return {outer.ptr, n, outer.class_index()};
  }
  MORTISE_HOT static std::uint64_t last_word(Block outer) noexcept { return load(outer.end() - kBytes); }
  MORTISE_HOT std::uint64_t released() const noexcept { return ~seal_; }
  /// The gap that a last word tells if it is a seal; when it is none, more than any block has.
  MORTISE_HOT std::uint64_t gap_in(std::uint64_t word) const noexcept { return (word ^ seal_) * kGather; }
  /// Whether it may have been a seal: of all whose gap is below 128 KiB the upper three bytes are the same, which a short overflow leaves.
  bool was_a_seal(std::uint64_t word) const noexcept { return (word ^ seal_) >> 40 == 0; }

  /// A gap of less than 8, or of less than 256 but longer than the block, nobody tells but who knows the secret.
  MORTISE_HOT bool is_whole(Block outer, std::uint64_t gap) const noexcept {
    if (gap > kFarthest) [[unlikely]] return gap <= outer.size && load(outer.end() - gap) == canary_;
    return load(outer.ptr + (outer.size - gap)) == behind_[gap];
  }
  /// The same for a block of known size, if the table has its gap.
  MORTISE_HOT bool is_whole_of(Block outer, std::size_t n) const noexcept {
    const std::size_t gap = outer.size - n;
    return gap - kBytes <= kFarthest - kBytes && last_word(outer) == seal_of(gap) && load(outer.ptr + n) == behind_[gap];
  }

  MORTISE_HOT static std::uint64_t load(const std::byte* at) noexcept {
    std::uint64_t word;
    std::memcpy(&word, at, sizeof word);
    return word;
  }
  MORTISE_HOT static void store(std::byte* at, std::uint64_t word) noexcept { std::memcpy(at, &word, sizeof word); }

 private:
  /// Divides no byte times a power of two: the seals of two gaps differ in two bytes at least, so that no byte of one can be changed into
  /// another, as that of a block without slack, whose seal is all that stands behind it.
  static constexpr std::uint64_t kSpread = 0x5B'D1E9;
  static constexpr std::uint64_t kGather = [] {
    std::uint64_t inverse = 1;
    for (int i = 0; i < 6; ++i) inverse *= 2 - kSpread * inverse;
    return inverse;
  }();
  static_assert(kSpread % 2 == 1 && kSpread > 0xFF && kSpread * 128_KiB >> 40 == 0 && kGather * kSpread == 1);

  MORTISE_HOT std::uint64_t seal_of(std::uint64_t gap) const noexcept { return seal_ ^ gap * kSpread; }

  std::uint64_t canary_ = 0, seal_ = 0;
  std::uint64_t behind_[kFarthest + 1] = {};  ///< by gap: the word behind the request
};

}  // namespace mortise
