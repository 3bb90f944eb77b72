// Knows of every pointer whether a block starts there and is held: double and invalid frees are found at once, always.
//
//   mark of p (shape/block_marks.hpp, out of line)    0 no block starts here    0xA5 held by the program    0x5A released
//
// allocate writes `held`, release wants to find it and writes `released`. A header beside the block would be there for an overflow to
// forge, and would take 16 bytes of every block; a mark is neither. Any other value means that the marks themselves were written.
//
// Bound: one byte read and one written. Misses: a block released by two threads at the very same moment (marks are plain bytes).
// When the OnFault slot goes on, the release does not happen.
// Progress: as below. Source: magic numbers in headers as in [Mortise24], moved out of line as in [Evans06].
// Placement: above everything that keeps released blocks (DelayedFree, caches), so that it sees the program's own releases; needs
// BlockMarks at the bottom.
#pragma once

#include "mortise/core/core.hpp"
#include "mortise/policy/on_fault.hpp"
#include "mortise/shape/block_marks.hpp"

namespace mortise {

/// `OnFault`: what comes after a wrong release.
/// `kPlane` (0..3): which of the planes of BlockMarks is its own.
template <OnFaultPolicy OnFault = on_fault::Configured, unsigned kPlane = 0> struct HeaderMagic {
  static constexpr const char* kName = "HeaderMagic";
  static constexpr const char* kWhat = "a mark out of line for each block: releases of what is not held are found at once";
  static constexpr const char* kNeeds = "BlockMarks above the source, and a heap between that finds blocks by pointer";
  template <class Out> static void describe(Out& out) {
    out.layer(kName, kWhat).policy("OnFault", OnFault::kName).number("plane", kPlane);
  }
  static constexpr std::uint8_t kHeld = 0xA5, kReleased = 0x5A;

  template <Locates Below> requires Marked<Below> class Over : public Passthrough<Below> {
   public:
    using typename Passthrough<Below>::Thread;
    static constexpr bool kTakesUnsized = true, kHitsAlone = requires { requires Below::kHitsAlone; };

    MORTISE_HOT Block allocate(Thread& t, Request r) noexcept {
      const Block b = this->below.allocate(t, r);
      if (b) [[likely]] mark_of(b) = kHeld;
      return b;
    }
    MORTISE_HOT void release(Thread& t, Block b) noexcept {
      if (!is_held(b)) [[unlikely]] return accuse(b, call_site());
      mark_of(b) = kReleased;
      if constexpr (!kTakesUnsizedBlocks<Below>)
        if (b.is_unsized() && b.size_class == kNoClass) b = this->below.measure(b);
      this->below.release(t, b);
    }

    MORTISE_HOT Block allocate_hit(Thread& t, Request r) noexcept requires Hits<Below> {
      const Block b = this->below.allocate_hit(t, r);
      if (!b) [[unlikely]] return {};
      mark(b.ptr) = kHeld;
      return b;
    }
    /// Marked before it goes: afterwards it may be anybody's.
    MORTISE_HOT bool release_hit(Thread& t, Block b) noexcept requires Hits<Below> {
      if (!is_held(b.ptr)) [[unlikely]] return false;
      mark(b.ptr) = kReleased;
      if (this->below.release_hit(t, b)) [[likely]] return true;
      mark(b.ptr) = kHeld;
      return false;
    }

    /// Of a pointer as the program gives it, which need not be one of ours.
    MORTISE_HOT Tried release_at(Thread& t, std::byte* p) noexcept requires Hits<Below> && Indexed<Below> {
      const std::size_t place = this->page_index().place_of(p);
      if (!this->page_index().holds_place(place)) [[unlikely]] return Tried::refused;
      std::uint8_t& mark = this->block_marks().template mark_at<kPlane>(place);
      if (mark != kHeld) [[unlikely]] return Tried::refused;
      const Block b = this->below.block_of(p);  // before the mark is written: bytes may alias what is read here
      mark = kReleased;
      return this->below.release_hit(t, b) ? Tried::done : Tried::checked;
    }
    void release_checked(Thread& t, std::byte* p) noexcept requires Hits<Below> && Indexed<Below> {
      Block b = this->below.block_of(p);
      if constexpr (!kTakesUnsizedBlocks<Below>)
        if (b.size_class == kNoClass) b = this->below.measure(b);
      this->below.release(t, b);
    }

    MORTISE_HOT bool release_hit_of_size(Thread& t, Block b, std::size_t n) noexcept requires HitsBySize<Below> {
      if (!is_held(b.ptr)) [[unlikely]] return false;
      mark(b.ptr) = kReleased;
      if (this->below.release_hit_of_size(t, b, n)) [[likely]] return true;
      mark(b.ptr) = kHeld;
      return false;
    }

    /// A pointer that no held block starts at is reported: it is about to be resized, or believed.
    Block measure(Block b) noexcept {
      if (!is_held(b)) [[unlikely]] {
        accuse(b, nullptr);
        return {b.ptr, 0, b.class_index()};
      }
      return this->below.measure(b);
    }

    unsigned allocate_batch(Thread& t, unsigned c, std::byte** out, unsigned n) noexcept requires Batches<Below> {
      const unsigned got = this->below.allocate_batch(t, c, out, n);
      for (unsigned i = 0; i < got; ++i) mark(out[i]) = kHeld;
      return got;
    }
    void release_batch(Thread& t, unsigned c, std::byte** in, unsigned n) noexcept requires Batches<Below> {
      unsigned kept = 0;
      for (unsigned i = 0; i < n; ++i) {
        if (!is_held(in[i])) [[unlikely]] {
          accuse({in[i], Below::Classes::size_of(c), c}, nullptr);
          continue;
        }
        mark(in[i]) = kReleased;
        in[kept++] = in[i];
      }
      this->below.release_batch(t, c, in, kept);
    }
    Block resize_by_moving(Thread& t, Block b, std::size_t n) noexcept requires Moves<Below> {
      mark_of(b) = kReleased;  // while it is ours: when it has moved, the place may be somebody else's
      const Block moved = this->below.resize_by_moving(t, b, n);
      mark_of(moved ? moved : b) = kHeld;
      return moved;
    }

    bool is_held(const std::byte* p) noexcept { return is_aligned(p, kMinAlign) && mark(p) == kHeld; }

   private:
    MORTISE_HOT std::uint8_t& mark(const std::byte* p) noexcept { return this->block_marks().template mark<kPlane>(p); }
    /// Large blocks have theirs elsewhere; whoever does not know the class of a block that might be one asks.
    MORTISE_HOT std::uint8_t& mark_of(Block b) noexcept {
      if constexpr (Classed<Below>) {
        constexpr std::size_t kGranule = std::remove_reference_t<decltype(this->block_marks())>::kGranule;
        if (b.size_class == kNoClass && is_aligned(b.ptr, kGranule) && this->below.block_of(b.ptr).size_class == kNoClass)
          return this->block_marks().template large_mark<kPlane>(b.ptr);
      }
      return mark(b.ptr);
    }
    MORTISE_HOT bool is_held(Block b) noexcept { return is_aligned(b.ptr, kMinAlign) && mark_of(b) == kHeld; }
    MORTISE_COLD void accuse(Block b, const void* seen_at) noexcept {
      const std::uint8_t found = is_aligned(b.ptr, kMinAlign) ? mark_of(b) : 0;
      Crime crime{.fault = Fault::invalid_free, .block = {b.ptr, 0}, .seen_at = seen_at};
      if (found == kReleased) {
        crime.fault = Fault::double_free;
        if constexpr (Classed<Below>)  // not measured: what guards below know of it may be gone with its release
          if (b.size_class != kNoClass) crime.block = {b.ptr, Below::Classes::size_of(b.class_index()), b.class_index()};
        if constexpr (Remembers<Below>) crime.freed_at = this->below.freed_at(b.ptr);
      } else if (found != 0) {
        crime.fault = Fault::header_overwritten;
      }
      OnFault::answer(crime);
    }
  };
};

}  // namespace mortise
