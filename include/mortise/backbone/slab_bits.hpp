// The bits of a span: which of its blocks are free. Blocks are taken and given in batches, a word of the bitmap at a time.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "mortise/backbone/slab_geometry.hpp"
#include "mortise/core/core.hpp"
#include "mortise/data/bitmap.hpp"
#include "mortise/data/strided.hpp"
#include "mortise/shape/page_index.hpp"

namespace mortise {

/// For spans of `Index` cut into blocks of `Classes`. No state; whoever calls holds the lock of the class. Neither the span's free
/// count nor its list is changed.
template <SizeMap Classes, class Index> struct SlabBits {
  using Geometry = SlabGeometry<Classes, Index::kGranule>;

  /// Takes the lowest `n` (1..as many as are set) blocks of `s` out of its bitmap. O(n + words).
  [[gnu::noinline]] static unsigned take(Span* s, std::byte* base, std::size_t size, std::byte** out, unsigned n,
                                         std::uint64_t* words) noexcept {
    unsigned got = 0, w = s->hint;
    for (;; ++w) {
      std::uint64_t word = words[w];
      std::byte* const at = base + w * 64 * size;
      if (is_one_run(word)) {
        const unsigned first = static_cast<unsigned>(std::countr_zero(word)), run = top_bit(word) + 1 - first;
        const unsigned some = run < n - got ? run : n - got;
        write_strided(out + got, at + first * size, size, some);
        got += some;
        word = some < run ? word & word << some : 0;
      } else {
        for (; word && got < n; word &= word - 1) out[got++] = at + static_cast<unsigned>(std::countr_zero(word)) * size;
      }
      words[w] = word;
      if (got == n) break;
    }
    s->hint = static_cast<std::uint16_t>(w);
    return got;
  }

  /// Sets the bits of the first blocks of [in, end), as many as lie in `s`; returns how many those are. A word of the bitmap is read and
  /// written once for neighbours; what can be wrong with them is gathered and looked at once for all.
  [[gnu::noinline]] static unsigned give(Span* s, const typename Geometry::Cut& cut, const std::byte* base, std::byte* const* in,
                                         std::byte* const* end, std::uint64_t* words) noexcept {
    const std::size_t bytes = Index::bytes_of(s), word_bytes = 64 * cut.size;
    std::ptrdiff_t next = in - end;  // counted up to 0: the step says whether it was the last
    std::size_t offset = static_cast<std::size_t>(*in - base), lowest = s->hint;
    do {
      const std::ptrdiff_t run = next;
      const auto first = cut.place_of(offset);
      const std::size_t w = first.index / 64, start = w * word_bytes, left = bytes - start;
      const std::size_t window = left < word_bytes ? left : word_bytes;
      const std::byte* const from = base + start;
      std::uint64_t word = words[w], again = 0, parts = first.part;
      set_bit(word, first.index % 64, again);
      while (++next && (offset = static_cast<std::size_t>(end[next] - from)) < window) {
        const auto place = cut.place_of(offset);
        parts |= place.part;
        set_bit(word, place.index, again);
      }
      if (again || Geometry::is_inside(parts) || w * 64 + top_bit(word) >= s->bump) [[unlikely]]
        blame(s, base, end + run, end + next, words);
      words[w] = word;
      if (w < lowest) lowest = w;
    } while (next && (offset = static_cast<std::size_t>(end[next] - base)) < bytes);
    s->hint = static_cast<std::uint16_t>(lowest);
    return static_cast<unsigned>(end + next - in);
  }

  /// The same for `*in` alone, whose neighbours in the batch are of other spans.
  static unsigned give_one(Span* s, const typename Geometry::Cut& cut, const std::byte* base, std::byte* const* in,
                           std::uint64_t* words) noexcept {
    const auto place = cut.place_of(static_cast<std::size_t>(*in - base));
    const std::size_t w = place.index / 64;
    std::uint64_t word = words[w], again = 0;
    set_bit(word, place.index, again);
    if (again || Geometry::is_inside(place.part) || place.index >= s->bump) [[unlikely]] blame(s, base, in, in + 1, words);
    words[w] = word;
    if (w < s->hint) s->hint = static_cast<std::uint16_t>(w);
    return 1;
  }

 private:
  /// One of these blocks is not the program's to free: which, and what is wrong with it?
  MORTISE_COLD static void blame(const Span* s, const std::byte* base, std::byte* const* in, std::byte* const* end,
                                 const std::uint64_t* words) noexcept {
    const unsigned c = s->size_class;
    for (std::byte* const* p = in; p != end; ++p) {
      const auto offset = static_cast<std::size_t>(*p - base);
      const unsigned at = Geometry::index_of(c, offset);
      const Block b{*p, Classes::size_of(c), c};
      MORTISE_CHECK(at * b.size == offset && at < s->bump, Fault::invalid_free, b);
      bool again = words[at / 64] >> (at % 64) & 1;
      for (std::byte* const* other = in; other != p; ++other) again |= *other == *p;
      MORTISE_CHECK(!again, Fault::double_free, b);
    }
  }
};

}  // namespace mortise
