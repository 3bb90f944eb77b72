// The Fill slot: what is done to the bytes of a block that waits in a quarantine?
//
// Blocks of many sizes come one after the other, so a loop over their bytes would be mispredicted at its end almost every time, and
// that costs more than the bytes. Up to kAtOnce bytes are therefore visited by a fixed number of words; where the block is shorter the
// last ones fall on its end again.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "mortise/core/inline.hpp"
#include "mortise/core/request.hpp"
#include "mortise/core/units.hpp"

namespace mortise {

/// `kFillBytes`: so many bytes at the start of a block are filled when it comes, and looked at when it goes.
/// `fill(p, n)`, `is_whole(p, n)`, `are_whole(p, count, n)` (not used where kFillBytes is 0): `p` is aligned to 16, `n` a multiple of
/// 16 and at least that. `Length(n)`: what whoever knows all n beforehand keeps of each; `fill(p, length)` then stands for it, and
/// `fill_short<kLeast>` is the same for an n from kLeast on and below kLongFrom.
/// `are_whole_each<kLeast>(p, count, length_of, may_be_long)`: of blocks of which the one at p[i] has the length `length_of(i)`, none
/// below kLeast, and none from kLongFrom on unless some may be.
template <class P>
concept QuarantineFill = requires {
  { P::kFillBytes } -> std::convertible_to<std::size_t>;
  { P::kName } -> std::convertible_to<const char*>;
};

namespace fills {

namespace detail {
using Word = std::uint64_t __attribute__((vector_size(16), may_alias));
MORTISE_HOT Word word(const std::byte* p) noexcept { return *reinterpret_cast<const Word*>(p); }
MORTISE_HOT Word& word(std::byte* p) noexcept { return *reinterpret_cast<Word*>(p); }
/// The same where it is not aligned.
struct [[gnu::packed, gnu::may_alias]] AnyWord {
  Word word;
};
MORTISE_HOT Word any_word(const std::byte* p) noexcept { return reinterpret_cast<const AnyWord*>(p)->word; }

/// All words from `from` to `to`, eight at a time, then four; before the last four the end is reached, and they fall on it, so that three
/// before `from`, which are the block's, may be looked at, too.
MORTISE_HOT Word range(const std::byte* from, const std::byte* to) noexcept {
  const auto *at = reinterpret_cast<const Word*>(from), *const end = reinterpret_cast<const Word*>(to);
  Word seen{};
  for (; end - at >= 8; at += 8) seen |= ((at[0] | at[1]) | (at[2] | at[3])) | ((at[4] | at[5]) | (at[6] | at[7]));
  for (; at < end; at += 4) {
    const Word* const four = end - at < 4 ? end - 4 : at;
    seen |= (four[0] | four[1]) | (four[2] | four[3]);
  }
  return seen;
}
/// Whether all words are zero of `count` blocks, each looked at in `sizeof...(At)` places.
template <class... At> bool are_zero(const std::byte* const* p, unsigned count, At... at) noexcept {
  Word seen{};
  for (unsigned i = 0; i < count; ++i) seen |= (word(p[i] + at) | ...);
  return (seen[0] | seen[1]) == 0;
}
}  // namespace detail

/// Blocks stay as the program left them.
struct Untouched {
  static constexpr const char* kName = "Untouched";
  static constexpr std::size_t kFillBytes = 0;
};

/// Zeroed when it comes, and zero when it goes: a write after free is found, a read after free finds nothing, what was there leaks to
/// nobody. Beyond the first `kBytes` nothing is done or found.
/// `kBytes` (16..1 GiB): so much of a block, from its start.
template <std::size_t kBytes = 1_GiB> class Zeroed {
  using Word = detail::Word;
  static constexpr std::size_t kAtOnce = 64;

 public:
  static constexpr const char* kName = "Zeroed";
  static constexpr std::size_t kFillBytes = kBytes;

  static constexpr std::size_t kLongFrom = kAtOnce + 1;

  /// Where the words lie that the first kAtOnce bytes are visited by, beside the one at the start.
  struct Length {
    std::uint32_t bytes = 0;
    std::uint8_t second = 0, third = 0, last = 0;

    constexpr Length() = default;
    constexpr explicit Length(std::size_t n) : bytes(static_cast<std::uint32_t>(n)) {
      const std::size_t end = (n < kAtOnce ? n : kAtOnce) - sizeof(Word);
      second = static_cast<std::uint8_t>(end < 16 ? end : 16);
      third = static_cast<std::uint8_t>(end < 32 ? end : 32);
      last = static_cast<std::uint8_t>(end);
    }
  };
  template <std::size_t kLeast> MORTISE_HOT static void fill_short(std::byte* p, const Length& l) noexcept {
    word(p) = word(p + l.second) = word(p + l.third) = word(p + l.last) = Word{};
  }
  MORTISE_HOT static void fill(std::byte* p, const Length& l) noexcept {
    fill_short<kMinAlign>(p, l);
    if (l.bytes > kAtOnce) [[unlikely]] std::memset(p + kAtOnce, 0, l.bytes - kAtOnce);
  }
  MORTISE_HOT static void fill(std::byte* p, std::size_t n) noexcept { fill(p, Length(n)); }
  MORTISE_HOT static bool is_whole(const std::byte* p, std::size_t n) noexcept {
    const Word* const last = reinterpret_cast<const Word*>(p + n) - 1;
    Word seen = *last;
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kAtOnce / sizeof(Word) - 1; ++i) seen |= *no_further(reinterpret_cast<const Word*>(p) + i, last);
    if (n > kAtOnce) [[unlikely]] seen |= rest(p, n);
    return (seen[0] | seen[1]) == 0;
  }
  /// The same for `count` blocks of `n` bytes each: one glance at all of them.
  static bool are_whole(const std::byte* const* p, unsigned count, std::size_t n) noexcept {
    const Length l(n);
    if (n <= 16) return detail::are_zero(p, count, 0);
    if (n <= 32) return detail::are_zero(p, count, 0, 16);
    if (n <= kAtOnce) return detail::are_zero(p, count, 0, 16, l.third, l.last);
    Word seen{};
    for (unsigned i = 0; i < count; ++i) seen |= word(p[i]) | word(p[i] + 16) | word(p[i] + 32) | rest(p[i], n);
    return (seen[0] | seen[1]) == 0;
  }
  template <std::size_t kLeast, class LengthOf>
  static bool are_whole_each(const std::byte* const* p, unsigned count, LengthOf&& length_of, bool) noexcept {
    Word seen{};
    for (unsigned i = 0; i < count; ++i) {
      const Length& n = length_of(i);
      seen |= (word(p[i]) | word(p[i] + n.second)) | (word(p[i] + n.third) | word(p[i] + n.last));
      if (n.bytes > kAtOnce) seen |= rest(p[i], n.bytes);
    }
    return (seen[0] | seen[1]) == 0;
  }

 private:
  MORTISE_HOT static Word word(const std::byte* p) noexcept { return detail::word(p); }
  MORTISE_HOT static Word& word(std::byte* p) noexcept { return detail::word(p); }
  MORTISE_HOT static Word rest(const std::byte* p, std::size_t n) noexcept { return detail::range(p + 48, p + n); }

  /// The lower of the two, without a jump: the compiler shall not see that one of them is a step from the one before.
  template <class W> MORTISE_HOT static W* no_further(W* at, W* last) noexcept {
    asm("" : "+r"(at));
    return at < last ? at : last;
  }
};

/// Zeroed at its start: the first 24 bytes, where objects have their table of functions and their links. So a release costs two
/// stores, up to `kWholeFrom`, and a look two loads, of one cache line mostly. Behind those, in smaller blocks than that, a write
/// after free is not found, and a read finds what was there. Not 32: a guard's last word in a block of 32 bytes shall stay. Larger
/// blocks, up to 32 KiB, whose owners have worked on them for longer than zeroing takes, are zeroed whole, but for that word.
/// `kWholeFrom` (128..32 KiB): blocks of so many bytes, and larger ones, are zeroed up to their last 8 bytes.
template <std::size_t kWholeFrom = 16_KiB> struct ZeroedStart {
  static constexpr const char* kName = "ZeroedStart";
  static constexpr std::size_t kFillBytes = 32_KiB;
  static constexpr std::size_t kStart = 24, kKept = 8;
  static_assert(kWholeFrom >= 128 && kWholeFrom <= kFillBytes && kWholeFrom % kMinAlign == 0, "128 bytes to 32 KiB, a multiple of 16");

  static constexpr std::size_t kLongFrom = kWholeFrom;

  struct Length {
    std::uint32_t bytes = 0;
    constexpr Length() = default;
    constexpr explicit Length(std::size_t n) : bytes(static_cast<std::uint32_t>(n)) {}
  };
  template <std::size_t kLeast> MORTISE_HOT static void fill_short(std::byte* p, const Length& l) noexcept {
    detail::word(p) = Word{};
    if (kLeast >= kStart || l.bytes >= kStart) reinterpret_cast<detail::AnyWord*>(p + kStart - sizeof(Word))->word = Word{};
  }
  MORTISE_HOT static void fill(std::byte* p, const Length& l) noexcept {
    fill_short<kMinAlign>(p, l);
    if (l.bytes >= kWholeFrom) [[unlikely]] std::memset(p + kStart, 0, l.bytes - kStart - kKept);
  }
  MORTISE_HOT static void fill(std::byte* p, std::size_t n) noexcept { fill(p, Length(n)); }
  MORTISE_HOT static bool is_whole(const std::byte* p, std::size_t n) noexcept { return are_whole(&p, 1, n); }
  static bool are_whole(const std::byte* const* p, unsigned count, std::size_t n) noexcept {
    if (n < kStart) return detail::are_zero(p, count, 0);
    Word seen{};
    for (unsigned i = 0; i < count; ++i) seen |= start(p[i]);
    for (unsigned i = 0; n >= kWholeFrom && i < count; ++i) seen |= rest(p[i], n);
    return (seen[0] | seen[1]) == 0;
  }
  template <std::size_t kLeast, class LengthOf>
  static bool are_whole_each(const std::byte* const* p, unsigned count, LengthOf&& length_of, bool may_be_long) noexcept {
    Word seen{};
    for (unsigned i = 0; i < count; ++i) seen |= kLeast >= kStart || length_of(i).bytes >= kStart ? start(p[i]) : detail::word(p[i]);
    for (unsigned i = 0; may_be_long && i < count; ++i)
      if (const Length& l = length_of(i); l.bytes >= kWholeFrom) seen |= rest(p[i], l.bytes);
    return (seen[0] | seen[1]) == 0;
  }

 private:
  using Word = detail::Word;
  MORTISE_HOT static Word rest(const std::byte* p, std::size_t n) noexcept {
    const std::byte* const last = p + n - kKept - sizeof(Word);
    return detail::range(p + sizeof(Word), last + kKept) | detail::any_word(last);
  }
  MORTISE_HOT static Word start(const std::byte* p) noexcept { return detail::word(p) | detail::any_word(p + kStart - sizeof(Word)); }
};

}  // namespace fills
}  // namespace mortise
