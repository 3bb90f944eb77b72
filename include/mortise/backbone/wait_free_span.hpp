// How wfslab cuts spans, and what it keeps of each: a bin of its blocks, who owns it, where its owner has it.
//
//   64 KiB span, blocks up to 8 KiB      ┌ word 0: 64 blocks ┬ word 1 ┬ ... ┬ never handed out ┐
//   256 KiB span, blocks up to 64 KiB    ┌ word 0: up to 28 blocks    ┬ never handed out       ┐
//
// The record lies in the span's part of the index's bitmaps, 512 bytes for each 64 KiB, away from the program's blocks. Spans
// start at multiples of their own size, so that a block's span is a mask away.
// Static facts and a plain record; wait-free where it is shared, which is the bin alone.
#pragma once

#include <array>
#include <cstdint>

#include "mortise/core/core.hpp"
#include "mortise/sync/wait_free_bin.hpp"

namespace mortise {

/// Spans come in two kinds.
inline constexpr unsigned kSpanKinds = 2;
inline constexpr std::size_t kSpanKindBytes[kSpanKinds] = {64_KiB, 256_KiB};

/// One span in an owner's hands. Every field but the bin is written by the holder of its slot alone. Whoever has put a block back
/// reads `owner` after that: it is the slot that the block came from, or, when the span has been used again since, the one that
/// has it now; either may be told. Zero is a valid record of a span that nobody uses.
struct WaitFreeSpan {
  static constexpr unsigned kWords = 56;  ///< 3584 blocks of 16 bytes: the record fills what the index has for 64 KiB
  WaitFreeBin<kWords> bin;
  // Not in a line of the bin: whoever frees a block reads `opened` first, and would wait for a line that others write.
  Atomic<std::uint16_t> opened;       ///< words handed out so far; others count by it
  Atomic<std::uint16_t> owner;        ///< number of the slot
  Atomic<std::uint8_t> size_class;    ///< kNoClass: nobody's blocks are in it
  std::uint8_t rest_of = kNoClass;    ///< whose rest_bytes no limit counts
  bool is_listed = false;             ///< in its class's list of spans with free blocks
  std::byte* base = nullptr;
  WaitFreeSpan *next = nullptr, *prev = nullptr;                ///< in its class's list; or among those at hand
  WaitFreeSpan *bucket_next = nullptr, *bucket_prev = nullptr;  ///< among its slot's spans
};
static_assert(sizeof(WaitFreeSpan) <= 64_KiB / kMinAlign / 8, "a record fits the bitmap of 64 KiB");

/// How each class of `Classes` is cut.
template <SizeMap Classes> struct WaitFreeGeometry {
  static_assert(Classes::kMaxBytes <= 64_KiB, "four blocks to a span at least");
  static constexpr std::size_t kSmallMax = 8_KiB;
  static constexpr unsigned kind(unsigned c) noexcept { return Classes::size_of(c) > kSmallMax; }
  static constexpr std::size_t span_bytes(unsigned c) noexcept { return kSpanKindBytes[kind(c)]; }
  static constexpr unsigned capacity(unsigned c) noexcept { return kFacts[c].capacity; }
  /// Blocks of a word that leave a thread together, at most: so that what waits for its neighbours is little.
  static constexpr unsigned sent_together(unsigned c) noexcept { return kFacts[c].sent_together; }
  static constexpr unsigned words(unsigned c) noexcept { return (capacity(c) + 63) / 64; }

  /// Behind the last block of a span: no limit need count what nobody can touch. Whole pages.
  static constexpr std::size_t rest_bytes(unsigned c) noexcept {
    if (c == kNoClass) return 0;
    return round_down(span_bytes(c) - capacity(c) * Classes::size_of(c), 4_KiB);
  }

  static std::byte* base_of(unsigned c, std::byte* p) noexcept {
    return reinterpret_cast<std::byte*>(round_down(address_of(p), span_bytes(c)));
  }
  /// Number of the block of class `c` that byte `offset` of its span lies in: a multiplication and a shift.
  static constexpr unsigned index_of(unsigned c, std::size_t offset) noexcept {
    return static_cast<unsigned>(offset * kFacts[c].reciprocal >> kShift);
  }
  static constexpr unsigned kNoBlock = 64;
  /// The number of block `p` in its word; kNoBlock where no block begins.
  MORTISE_HOT static unsigned number_in_word(unsigned c, const std::byte* p) noexcept {
    const std::size_t offset = address_of(p) & (span_bytes(c) - 1);
    const unsigned i = index_of(c, offset);
    return i * Classes::size_of(c) == offset && i < capacity(c) ? i % 64 : kNoBlock;
  }

 private:
  static constexpr unsigned kShift = 40;
  struct Facts {
    std::uint64_t reciprocal;
    std::uint16_t capacity, sent_together;
  };
  static constexpr auto make_facts() {
    std::array<Facts, Classes::kCount + 1> facts{};
    for (unsigned c = 1; c <= Classes::kCount; ++c) {
      const std::size_t size = Classes::size_of(c), fit = span_bytes(c) / size, most = WaitFreeSpan::kWords * 64;
      const std::size_t together = size > 16_KiB ? 1 : size * 64 > 16_KiB ? 16_KiB / size : 64;
      facts[c] = {((std::uint64_t{1} << kShift) + size - 1) / size, static_cast<std::uint16_t>(fit < most ? fit : most),
                  static_cast<std::uint16_t>(together)};
    }
    return facts;
  }
  static constexpr auto kFacts = make_facts();
};

}  // namespace mortise
