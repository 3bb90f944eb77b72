// Room for sampled blocks: large blocks of the heap below, carved by a bitmap.
//
//   chunk   ┌────┬────────┬─────────────┬────┐     one large block of what is below: its granules have no size class, so a free
//           │▒▒▒▒│        │▒▒▒▒▒▒▒▒▒▒▒▒▒│    │     of what lies in it misses by itself, and no other free looks for samples
//           └────┴────────┴─────────────┴────┘
//   used    1110 00000000 1111111111111 0000       a bit for 64 bytes, in bookkeeping memory
//
// First fit within a chunk, next fit among chunks. A chunk that is empty goes back; pages of free room in others go back when asked for,
// or when blocks of kFreedMax bytes were freed: faults, not samples, would be most of the cost if each went back at once.
// Bound: kChunksTried bitmaps of 1 KiB; all of them once in kFreedMax bytes. Not synchronised: the layer that owns it holds its lock.
#pragma once

#include <bit>

#include "mortise/core/core.hpp"
#include "mortise/data/preset.hpp"

namespace mortise {

template <Classed Below> class SampleChunks {
 public:
  static constexpr std::size_t kGrain = 64, kChunkBytes = 2 * Below::Classes::kMaxBytes;
  static constexpr std::size_t kAlignMax = 64_KiB;  ///< chunks start there at least
  static constexpr std::size_t kFreedMax = 4_MiB;  ///< so much free room may lie about with its pages
  static constexpr unsigned kGrains = kChunkBytes / kGrain, kChunksTried = 8;

  struct Chunk {
    Chunk *next, *prev;
    std::byte* base;
    unsigned free_grains;
    unsigned low;   ///< no grain before it is free
    bool is_dirty;  ///< something was freed since its free pages went back
    std::uint64_t used[kGrains / 64];
  };
  struct Place {
    std::byte* ptr = nullptr;
    Chunk* chunk = nullptr;
  };

  /// Room for `bytes`, at most the largest class, at a multiple of `align`, at most kAlignMax. Null without memory.
  Place take(Below& below, typename Below::Thread& t, std::size_t bytes, std::size_t align) noexcept {
    const unsigned n = grains_of(bytes), step = align > kGrain ? static_cast<unsigned>(align / kGrain) : 1;
    for (unsigned tries = 0; cursor_ && tries < kChunksTried && tries < count_; ++tries, cursor_ = cursor_->next)
      if (const unsigned at = find(*cursor_, n, step); at < kGrains) return occupy(cursor_, at, n);
    Chunk* const c = make(below, t);
    return c ? occupy(c, 0, n) : Place{};
  }

  void give(Below& below, typename Below::Thread& t, Chunk* c, std::byte* p, std::size_t bytes) noexcept {
    const unsigned n = grains_of(bytes);
    const auto at = static_cast<unsigned>(static_cast<std::size_t>(p - c->base) / kGrain);
    set(*c, at, n, false);
    c->free_grains += n;
    if (at < c->low) c->low = at;
    if (c->free_grains == kGrains) return drop(below, t, c);
    c->is_dirty = true;
    if ((freed_bytes_ += n * kGrain) > kFreedMax) purge(below);
  }

  /// Of the machine; before the first block is given.
  void set_page_bytes(std::size_t bytes) noexcept { page_bytes_ = bytes; }

  /// Gives the pages of free room back to the system; returns their bytes. O(chunks).
  std::size_t purge(Below& below) noexcept {
    std::size_t given = 0;
    freed_bytes_ = 0;
    Chunk* c = cursor_;
    if constexpr (PurgesPages<Below>)
      for (unsigned i = 0; i < count_; ++i, c = c->next) {
        if (!c->is_dirty) continue;
        c->is_dirty = false;
        for (unsigned at = 0; (at = next_bit(*c, at, false)) < kGrains;) {
          const unsigned end = next_bit(*c, at, true);
          given += purge_between(below, c->base + at * kGrain, c->base + end * kGrain);
          at = end;
        }
      }
    return given;
  }

  std::size_t bytes() const noexcept { return count_ * kChunkBytes; }
  unsigned count() const noexcept { return count_; }

 private:
  std::size_t purge_between(Below& below, std::byte* first, std::byte* last) const noexcept {
    const std::size_t page = page_bytes_;
    first += round_up(address_of(first), page) - address_of(first);
    last -= address_of(last) % page;
    const bool is_given = first < last && below.purge_pages(first, static_cast<std::size_t>(last - first));
    return is_given ? static_cast<std::size_t>(last - first) : 0;
  }
  static constexpr unsigned grains_of(std::size_t bytes) noexcept {
    return static_cast<unsigned>((bytes + kGrain - 1) / kGrain) + (bytes == 0);
  }

  /// The first bit from `at` on that is `wanted`; kGrains when there is none.
  static unsigned next_bit(const Chunk& c, unsigned at, bool wanted) noexcept {
    while (at < kGrains) {
      const std::uint64_t word = (wanted ? c.used[at / 64] : ~c.used[at / 64]) >> at % 64;
      if (word) return at + static_cast<unsigned>(std::countr_zero(word));
      at = (at / 64 + 1) * 64;
    }
    return kGrains;
  }
  static unsigned find(const Chunk& c, unsigned n, unsigned step) noexcept {
    if (c.free_grains < n) return kGrains;
    for (unsigned at = c.low; at + n <= kGrains;) {
      at = static_cast<unsigned>(round_up(next_bit(c, at, false), step));
      if (at + n > kGrains) break;
      const unsigned end = next_bit(c, at, true);
      if (end >= at + n) return at;
      at = end;
    }
    return kGrains;
  }
  static void set(Chunk& c, unsigned at, unsigned n, bool is_used) noexcept {
    for (; n; ) {
      const unsigned low = at % 64, some = n < 64 - low ? n : 64 - low;
      const std::uint64_t mask = (some == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << some) - 1) << low;
      if (is_used) c.used[at / 64] |= mask;
      else c.used[at / 64] &= ~mask;
      at += some;
      n -= some;
    }
  }
  static Place occupy(Chunk* c, unsigned at, unsigned n) noexcept {
    set(*c, at, n, true);
    c->free_grains -= n;
    if (at == c->low) c->low = at + n;
    return {c->base + at * kGrain, c};
  }

  Chunk* make(Below& below, typename Below::Thread& t) noexcept {
    Chunk* c = spare_;
    if (c) spare_ = c->next;
    else if (!(c = reinterpret_cast<Chunk*>(below.meta(sizeof(Chunk))))) return nullptr;
    const Block b = below.allocate(t, {.size = kChunkBytes});
    if (!b || !is_aligned(b.ptr, kAlignMax)) {
      if (b) below.release(t, b);
      c->next = spare_;
      spare_ = c;
      return nullptr;
    }
    *c = {.next = c, .prev = c, .base = b.ptr, .free_grains = kGrains, .low = 0, .is_dirty = false, .used = {}};
    if (cursor_) {
      c->next = cursor_;
      c->prev = cursor_->prev;
      c->prev->next = c;
      cursor_->prev = c;
    }
    cursor_ = c;
    ++count_;
    return c;
  }
  void drop(Below& below, typename Below::Thread& t, Chunk* c) noexcept {
    if (cursor_ == c) cursor_ = c->next == c ? nullptr : c->next;
    c->prev->next = c->next;
    c->next->prev = c->prev;
    c->next = spare_;
    spare_ = c;
    --count_;
    below.release(t, {c->base, kChunkBytes, kNoClass});
  }

  Chunk* cursor_ = nullptr;  ///< in the ring of all chunks
  Chunk* spare_ = nullptr;
  Preset<4_KiB> page_bytes_;
  unsigned count_ = 0;
  std::size_t freed_bytes_ = 0;  ///< since free pages last went back
};

}  // namespace mortise
