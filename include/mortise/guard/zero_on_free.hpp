// A released block is zeroed, and must still be zero when it is given out again: nothing leaks into the next owner's hands, a read
// after free finds nothing, a write after free is found when the memory is reused.
//
//   mark of p    0: not known to be zero    c: zeroed as a block of class c, and not given out since
//
// Only what is known to have been zeroed here, as a block of the same class, is looked at: memory that was never handed out, or served
// as a large block since, says nothing. Large blocks are not zeroed; their pages are, when they come from the system. One may begin in
// the middle of what was zeroed as a smaller block:
//
//   then     ──┬── zeroed, mark c ──┬──      since the middle was the large block's, the mark is to be forgotten, though it lies
//   now      ─── tail ──┬── large ────       before it, in memory that may be somebody else's by now
//
// When the OnFault slot goes on, the block is zeroed again and given out.
// Bound: O(size) a release, and again an allocation; a zeroed request of a known block costs nothing more; a large block, a look at
// the marks of as many bytes before it as the largest class has. Misses: a write of zeros.
// Progress: as below. Source: zero on free with a check at reuse as in [hardened_malloc].
// Placement: above DelayedFree and caches, so that the whole time from release to reuse is covered; not with guards of tails: one zeroes
// what the other looks at. Needs size classes, and BlockMarks with a plane of its own.
#pragma once

#include <cstring>

#include "mortise/core/core.hpp"
#include "mortise/policy/on_fault.hpp"
#include "mortise/shape/block_marks.hpp"

namespace mortise {

/// `OnFault`: what comes after a write after free.
/// `kPlane` (0..3): which of the planes of BlockMarks is its own.
template <OnFaultPolicy OnFault = on_fault::Configured, unsigned kPlane = 1> struct ZeroOnFree {
  static constexpr const char* kName = "ZeroOnFree";
  static constexpr const char* kWhat = "released blocks are zeroed, and must be zero when they are given out again";
  static constexpr const char* kNeeds = "size classes, BlockMarks<2> above the source, and nobody below who writes into released blocks "
                                        "(guards of tails, headers, SegregatedFit)";
  template <class Out> static void describe(Out& out) {
    out.layer(kName, kWhat).policy("OnFault", OnFault::kName).number("plane", kPlane);
  }

  template <Locates Below> requires Marked<Below> && Classed<Below> && (!kSizesExactly<Below> && !facts_of<Below>().is_written)
  class Over : public Passthrough<Below> {
   public:
    using typename Passthrough<Below>::Thread;
    using Classes = typename Below::Classes;
    static constexpr bool kTakesUnsized = true;
    static_assert(Classes::kCount < 256, "a class fits a mark");
    static constexpr unsigned kPlanesTaken = planes_taken<Below>() | 1u << kPlane | kWipes;
    static constexpr BlockFacts kFacts = facts_of<Below>().watched();
    static_assert(!(planes_taken<Below>() >> kPlane & 1), "two guards keep marks in one plane of BlockMarks: each needs its own");

    Block allocate(Thread& t, Request r) noexcept {
      if (r.size > Classes::kMaxBytes) return large(this->below.allocate(t, r));
      const bool zeroed = r.zeroed;
      r.zeroed = false;
      const Block b = this->below.allocate(t, r);
      return b ? proven(b, r.size, zeroed) : b;
    }
    void release(Thread& t, Block b) noexcept {
      forget(b);
      if constexpr (!kTakesUnsizedBlocks<Below>)
        if (b.size_class == kNoClass && b.is_unsized()) b = this->below.measure(b);
      this->below.release(t, b);
    }
    MORTISE_HOT Block allocate_hit(Thread& t, Request r) noexcept requires Hits<Below> {
      const bool zeroed = r.zeroed;
      r.zeroed = false;
      const Block b = this->below.allocate_hit(t, r);
      if (!b) [[unlikely]] return {};
      return proven(b, r.size, zeroed);
    }
    MORTISE_HOT bool release_hit(Thread& t, Block b) noexcept requires Hits<Below> {
      if (b.size_class == kNoClass) [[unlikely]] return false;
      forget(b);
      return this->below.release_hit(t, b);
    }
    unsigned allocate_batch(Thread& t, unsigned c, std::byte** out, unsigned n) noexcept requires Batches<Below> {
      const unsigned got = this->below.allocate_batch(t, c, out, n);
      for (unsigned i = 0; i < got; ++i) proven({out[i], Classes::size_of(c), c}, 0, false);
      return got;
    }
    void release_batch(Thread& t, unsigned c, std::byte** in, unsigned n) noexcept requires Batches<Below> {
      for (unsigned i = 0; i < n; ++i) forget({in[i], Classes::size_of(c), c});
      this->below.release_batch(t, c, in, n);
    }
    Block resize_in_place(Thread& t, Block b, std::size_t n) noexcept requires Resizes<Below> {
      return large(this->below.resize_in_place(t, b, n));
    }
    Block resize_by_moving(Thread& t, Block b, std::size_t n) noexcept requires Moves<Below> {
      return large(this->below.resize_by_moving(t, b, n));
    }

   private:
    MORTISE_HOT std::uint8_t& mark(const std::byte* p) noexcept { return this->block_marks().template mark<kPlane>(p); }

    MORTISE_HOT void forget(Block b) noexcept {
      if (b.size_class == kNoClass) return;
      std::memset(b.ptr, 0, Classes::size_of(b.class_index()));
      show(mark(b.ptr), static_cast<std::uint8_t>(b.size_class));
    }
    /// What its owner writes in it may come to lie where a smaller block was zeroed once, or the end of one.
    Block large(Block b) noexcept {
      if (!b || b.size_class != kNoClass) return b;
      auto& marks = this->block_marks();
      const auto before = static_cast<std::size_t>(b.ptr - marks.origin());
      for (std::byte* p = b.ptr - (before < Classes::kMaxBytes ? before : Classes::kMaxBytes); p < b.ptr; p += kMinAlign)
        if (const unsigned c = glance(mark(p)); c && p + Classes::size_of(c) > b.ptr) show(mark(p), std::uint8_t{0});
      marks.template clear<kPlane>(b.ptr, b.size);
      return b;
    }
    MORTISE_HOT Block proven(Block b, std::size_t asked, bool zeroed) noexcept {
      if (b.size_class == kNoClass) [[unlikely]] return large(zeroed ? wiped(b, asked) : b);  // so it is aligned
      const bool was_zeroed = glance(mark(b.ptr)) == b.size_class;
      show(mark(b.ptr), std::uint8_t{0});
      if (was_zeroed ? is_zero(b.ptr, b.size) : !zeroed) [[likely]] return b;
      return was_zeroed ? accuse(b) : wiped(b, asked);
    }
    MORTISE_COLD static Block wiped(Block b, std::size_t n) noexcept {
      std::memset(b.ptr, 0, n);
      return b;
    }
    static bool is_zero(const std::byte* p, std::size_t n) noexcept {
      std::uint64_t seen = 0;
      for (std::size_t i = 0; i + 16 <= n; i += 16) {
        std::uint64_t pair[2];
        std::memcpy(pair, p + i, sizeof pair);
        seen |= pair[0] | pair[1];
      }
      for (std::size_t i = n & ~std::size_t{15}; i < n; ++i) seen |= static_cast<std::uint64_t>(p[i]);
      return seen == 0;
    }
    MORTISE_COLD static Block accuse(Block b) noexcept {
      OnFault::answer({.fault = Fault::write_after_free, .block = b});
      return wiped(b, b.size);
    }
  };
};

}  // namespace mortise
