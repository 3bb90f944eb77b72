// Knows of every pointer whether a block starts there and is held: double and invalid frees are found at once, always.
//
//   mark of p (shape/block_marks.hpp, out of line)    0 no block starts here    0xFA or a size class: held by the program    0xFC released
//
// allocate writes `held`, release wants to find it and writes `released`. A header beside the block would be there for an overflow to
// forge, and would take 16 bytes of every block; a mark is neither. Any other value means that the marks themselves were written.
//
// Over a quarantine that takes any byte for a class and has room for none that is no class (DelayedBatches), the mark of a held block is
// its class: a release reads neither the class map nor asks whether the mark is right, the quarantine's own question answers both.
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
  static constexpr std::uint8_t kHeld = 0xFA, kReleased = 0xFC;

  template <Locates Below> requires Marked<Below> class Over : public Passthrough<Below> {
   public:
    using typename Passthrough<Below>::Thread;
    static constexpr bool kTakesUnsized = true, kHitsAlone = requires { requires Below::kHitsAlone; };
    static constexpr unsigned kPlanesTaken = planes_taken<Below>() | 1u << kPlane;
    static constexpr BlockFacts kFacts = facts_of<Below>().watched();
    static_assert(!(planes_taken<Below>() >> kPlane & 1), "two guards keep marks in one plane of BlockMarks: each needs its own");
    /// A held block's mark is its size class, where what is below takes that for it: then a release reads nothing else to find its class.
    static constexpr bool kTellsClass = requires(Below& h, Thread& t, std::byte* p) { h.release_hit_as(t, p, 0, [] {}); };

    MORTISE_HOT Block allocate(Thread& t, Request r) noexcept {
      const Block b = this->below.allocate(t, r);
      if (b) [[likely]] hold(b);
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
      mark(b.ptr) = kTellsClass ? static_cast<std::uint8_t>(b.size_class) : kHeld;  // a hit has a class
      return b;
    }
    /// Marked before it goes: afterwards it may be anybody's.
    MORTISE_HOT bool release_hit(Thread& t, Block b) noexcept requires Hits<Below> {
      if (!is_held(b.ptr)) [[unlikely]] return false;
      std::uint8_t& mark = this->mark(b.ptr);
      const std::uint8_t found = mark;
      mark = kReleased;
      if (this->below.release_hit(t, b)) [[likely]] return true;
      mark = found;
      return false;
    }

    /// Of a pointer as the program gives it, which need not be one of ours.
    MORTISE_HOT Tried release_at(Thread& t, std::byte* p) noexcept requires Hits<Below> && Indexed<Below> {
      const std::size_t place = this->page_index().place_of(p);
      if (!this->page_index().holds_place(place)) [[unlikely]] return Tried::refused;
      std::uint8_t& mark = this->block_marks().template mark_at<kPlane>(place);
      const std::size_t found = mark;
      if constexpr (kTellsClass) {
        if (this->below.release_hit_as(t, p, found, [&mark] { mark = kReleased; })) [[likely]] return Tried::done;
        if (!is_held_mark(found)) return Tried::refused;
        mark = kReleased;
        return Tried::checked;
      }
      if (found != kHeld) [[unlikely]] return Tried::refused;
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
      std::uint8_t& mark = this->mark(b.ptr);
      const std::uint8_t found = mark;
      mark = kReleased;
      if (this->below.release_hit_of_size(t, b, n)) [[likely]] return true;
      mark = found;
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

    /// Whether a held block of a class serves `n` bytes as it is: large enough, and at least half of it wanted. Reports nothing.
    MORTISE_HOT bool resize_hit(Block b, std::size_t n) noexcept requires Classed<Below> && (!kSizesExactly<Below>) {
      if (b.size_class == kNoClass || !is_held(b.ptr)) return false;
      const std::size_t size = Below::Classes::size_of(b.class_index());
      return n <= size && n >= size / 2;
    }

    unsigned allocate_batch(Thread& t, unsigned c, std::byte** out, unsigned n) noexcept requires Batches<Below> {
      const unsigned got = this->below.allocate_batch(t, c, out, n);
      for (unsigned i = 0; i < got; ++i) mark(out[i]) = held_as(c);
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
      hold(moved ? moved : b);
      return moved;
    }

    bool is_held(const std::byte* p) noexcept { return is_aligned(p, kMinAlign) && is_held_mark(mark(p)); }

   private:
    static constexpr unsigned kClasses = [] {
      if constexpr (kTellsClass) return Below::Classes::kCount; else return 0;
    }();
    static_assert(kClasses < kHeld, "a class is a mark");

    MORTISE_HOT static bool is_held_mark(std::size_t mark) noexcept { return mark == kHeld || mark - 1 < kClasses; }
    static std::uint8_t held_as(unsigned c) noexcept { return kTellsClass && c != kNoClass ? static_cast<std::uint8_t>(c) : kHeld; }
    void hold(Block b) noexcept {
      unsigned c = b.class_index();
      if constexpr (kTellsClass)
        if (c == kNoClass) c = this->below.block_of(b.ptr).class_index();
      mark_of(b) = held_as(c);
    }
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
    MORTISE_HOT bool is_held(Block b) noexcept { return is_aligned(b.ptr, kMinAlign) && is_held_mark(mark_of(b)); }
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
