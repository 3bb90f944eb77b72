// HeaderMagic and TailChecksum in one, for less than what both take: the mark that says that a block is held also says where it ends.
//
//   mark of ptr (shape/block_marks.hpp, out of line)    0 no block starts here    1 released    2 held, far    8..0xFF held, the gap
//
//   low address                                           high address
//   ┌───────────────────────────┬────────┬───────┬────────┐
//   │ the program's n bytes     │ canary │ slack │ canary │   the block below; with less than 16 bytes to spare the two overlap
//   └───────────────────────────┴────────┴───────┴────────┘
//   ▲ ptr                       ▲ ptr + n                 ▲ gap = what lies between ptr + n and here: 8 bytes at least
//
// malloc: the canary, a secret word without a zero byte, goes behind the request and to the end of the block; the gap is the mark. A gap
// that no mark can tell, in large classes, is told by the last word, xor the canary, and the mark says so.
// free: 1. the mark must be that of a held block; 2. both words must be what they were; 3. the mark says `released`. The word behind the
// request, where the other one overlaps it, is a function of the gap alone: a table has it.
//
// Found: every release, resize or measuring of what is not held, and every write that changes one of the 8 bytes behind a request, the end
// of a string among them, or one of the 8 before the next block. A random byte is missed once in 255, where it is the same. Not
// watched: the slack between the two words. Who has read the canary of one block knows all; TailChecksum's last word is a function
// of the block's place besides.
// Misses: a block released by two threads at the very same moment (marks are plain bytes).
// When the OnFault slot goes on, a wrong release does not happen; a block with a broken tail is released as if it were whole.
//
// Takes 8 bytes a block. Bound: one byte and two words read and written. Progress: as below.
// Source: out-of-line metadata as in [Evans06]; canaries as in [Cowan98]; magic numbers as in [Mortise24].
// Placement: above everything that keeps released blocks (quarantines, caches); needs size classes, and BlockMarks at the bottom.
#pragma once

#include <algorithm>
#include <cstring>

#include "mortise/core/core.hpp"
#include "mortise/os/entropy.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/policy/on_fault.hpp"
#include "mortise/policy/size_classes.hpp"
#include "mortise/shape/block_marks.hpp"

namespace mortise {

/// `OnFault`: what comes after a wrong release or an overwritten tail.
/// `kPlane` (0..3): which of the planes of BlockMarks is its own.
template <OnFaultPolicy OnFault = on_fault::Configured, unsigned kPlane = 0> struct MarkedTail {
  static constexpr const char* kName = "MarkedTail";
  static constexpr const char* kWhat = "a mark out of line and canaries behind each block: wrong releases, writes past the end";
  static constexpr const char* kNeeds = "BlockMarks above the source, and a heap with size classes between that finds blocks by pointer, "
                                        "of which none lies within a span that is not its own (SampledGuards and SizeCheck stand above)";
  static constexpr std::size_t kTail = 8;
  static constexpr std::uint8_t kReleased = 1, kFar = 2, kFarthest = 0xFF;
  template <class Out> static void describe(Out& out) {
    out.layer(kName, kWhat).policy("OnFault", OnFault::kName).number("tail_bytes", kTail).number("plane", kPlane);
  }

  template <Locates Below>
      requires Marked<Below> && Classed<Below> && (!(planes_taken<Below>() & kWipes) && facts_of<Below>().spans != Spans::none) &&
               (!ChecksSizes<Below>)
  class Over : public Passthrough<Below> {
   public:
    using typename Passthrough<Below>::Thread;
    using Classes = Shrunk<typename Below::Classes, kTail>;
    static constexpr BlockFacts kFacts = facts_of<Below>().shared();
    static constexpr bool kExactSizes = true, kTellsEverySize = true, kTakesUnsized = true;
    static constexpr bool kHitsAlone = requires { requires Below::kHitsAlone; };
    static constexpr unsigned kPlanesTaken = planes_taken<Below>() | 1u << kPlane;
    static_assert(!(planes_taken<Below>() >> kPlane & 1), "two guards keep marks in one plane of BlockMarks: each needs its own");

    bool start(const os::Facts& facts) noexcept {
      if (!canary_) draw();
      if (!start_below(this->below, facts)) return false;
      near_ = kNear;
      return true;
    }

    MORTISE_HOT Block allocate(Thread& t, Request r) noexcept {
      r.size += r.size == 0;
      const Block outer = this->below.allocate(t, r.grown_by(kTail));
      return outer ? seal(outer, r.size, mark_of(outer)) : Block{};
    }
    MORTISE_HOT void release(Thread& t, Block b) noexcept {
      if (!is_held(b)) [[unlikely]] return accuse(b, call_site());
      const Block outer = sized(b);
      std::uint8_t& mark = mark_of(b);
      if (!is_whole(outer, mark)) [[unlikely]] accuse_tail(outer, call_site());
      mark = kReleased;
      this->below.release(t, outer);
    }

    /// No for nothing, and for more than can be asked of anybody with a tail.
    MORTISE_HOT Block allocate_hit(Thread& t, Request r) noexcept requires Hits<Below> {
      Request wish = r;
      if (r.align <= kMinAlign && r.size - 1 < near_) [[likely]] {
        wish.size += kTail;
        Block outer;
        if constexpr (HitsNear<Below>) outer = this->below.allocate_hit_near(t, wish);
        else outer = this->below.allocate_hit(t, wish);
        if (!outer) [[unlikely]] return {};
        return seal_near(outer, r.size, outer.size - r.size, mark(outer.ptr));
      }
      if (static_cast<std::ptrdiff_t>(r.size - 1) < 0) [[unlikely]] return {};
      wish.size += kTail;
      const Block outer = this->below.allocate_hit(t, wish);
      if (!outer) [[unlikely]] return {};
      return seal(outer, r.size, mark(outer.ptr));
    }
    /// No for a block that is not held or not whole, so that `release` is called and says so; among them all without a class, for those
    /// have their marks elsewhere.
    MORTISE_HOT bool release_hit(Thread& t, Block b) noexcept requires Hits<Below> {
      if (!is_aligned(b.ptr, kMinAlign)) [[unlikely]] return false;
      std::uint8_t& mark = this->mark(b.ptr);
      const std::uint8_t held = mark;
      const Block outer{b.ptr, Below::Classes::size_of(b.class_index()), b.class_index()};
      if (held < kTail) [[unlikely]] {
        if (held != kFar || !is_whole_far(outer)) return false;
      } else if (!is_whole_near(outer, held)) [[unlikely]] {
        return false;
      }
      return release_whole(t, outer, mark, held);
    }

    /// Of a pointer as the program gives it, which need not be one of ours.
    MORTISE_HOT Tried release_at(Thread& t, std::byte* p) noexcept requires Hits<Below> && Indexed<Below> {
      const std::size_t place = this->page_index().place_of(p);
      if (!this->page_index().holds_place(place)) [[unlikely]] return Tried::refused;
      std::uint8_t& mark = this->block_marks().template mark_at<kPlane>(place);
      const std::uint8_t held = mark;
      const auto& line = line_of(p);
      const Block outer{p, line.bytes(), kNoClass};
      if (held < kTail) [[unlikely]] {
        if (held != kFar || !is_whole_far(outer)) return Tried::refused;
      } else if (!is_whole_near(outer, held)) [[unlikely]] {
        return Tried::refused;
      }
      mark = kReleased;
      return release_by(t, p, line) ? Tried::done : Tried::checked;
    }
    /// The same for `n` bytes, as the program says. A block of known size has a known mark.
    MORTISE_HOT Tried release_at_of_size(Thread& t, std::byte* p, std::size_t n) noexcept requires Hits<Below> && Indexed<Below> {
      const std::size_t place = this->page_index().place_of(p);
      if (!this->page_index().holds_place(place)) [[unlikely]] return Tried::refused;
      std::uint8_t& mark = this->block_marks().template mark_at<kPlane>(place);
      const auto& line = line_of(p);
      const Block outer{p, line.bytes(), kNoClass};
      const std::size_t gap = outer.size - n;
      if (gap != mark || gap < kTail || !is_whole_near(outer, gap)) [[unlikely]] return Tried::refused;
      mark = kReleased;
      return release_by(t, p, line) ? Tried::done : Tried::checked;
    }
    void release_checked(Thread& t, std::byte* p) noexcept requires Hits<Below> && Indexed<Below> {
      this->below.release(t, sized(this->below.block_of(p)));
    }

    /// A block of known size has a known mark. No for one that the mark does not tell.
    MORTISE_HOT bool release_hit_of_size(Thread& t, Block b, std::size_t n) noexcept requires Hits<Below> {
      if (!is_aligned(b.ptr, kMinAlign)) [[unlikely]] return false;
      std::uint8_t& mark = this->mark(b.ptr);
      const Block outer{b.ptr, Below::Classes::size_of(b.class_index()), b.class_index()};
      const std::size_t gap = outer.size - n;
      if (gap != mark || gap < kTail || !is_whole_near(outer, gap)) [[unlikely]] return false;
      return release_whole(t, outer, mark, static_cast<std::uint8_t>(gap));
    }

    Block block_of(std::byte* p) noexcept {
      const Block outer = this->below.block_of(p);
      return {p, 0, outer.class_index()};
    }
    /// The size is that of the request. A pointer that no held block starts at, and a block that is not whole, have none to tell, and are
    /// reported: they are about to be resized, or believed.
    Block measure(Block b) noexcept {
      if (!is_held(b)) [[unlikely]] {
        accuse(b, nullptr);
        return {b.ptr, 0, b.class_index()};
      }
      const Block outer = sized(b);
      const std::uint8_t mark = mark_of(b);
      if (!is_whole(outer, mark)) [[unlikely]] {
        accuse_tail(outer, nullptr);
        return outer.shrunk_by(kTail);
      }
      return {b.ptr, outer.size - gap_of(outer, mark), outer.class_index()};
    }
    MORTISE_HOT bool has_size(Block b, std::size_t n) noexcept {
      const Block outer{b.ptr, Below::Classes::size_of(b.class_index()), b.class_index()};
      const std::uint8_t mark = this->mark(b.ptr);
      return is_held(mark) && outer.size - gap_of(outer, mark) == n;
    }

    unsigned allocate_batch(Thread& t, unsigned c, std::byte** out, unsigned n) noexcept requires Batches<Below> {
      const unsigned got = this->below.allocate_batch(t, c, out, n);
      for (unsigned i = 0; i < got; ++i) seal({out[i], Below::Classes::size_of(c), c}, Classes::size_of(c), mark(out[i]));
      return got;
    }
    void release_batch(Thread& t, unsigned c, std::byte** in, unsigned n) noexcept requires Batches<Below> {
      unsigned kept = 0;
      for (unsigned i = 0; i < n; ++i) {
        const Block outer{in[i], Below::Classes::size_of(c), c};
        if (!is_held(outer)) [[unlikely]] {
          accuse(outer, nullptr);
          continue;
        }
        if (!is_whole(outer, mark(in[i]))) [[unlikely]] accuse_tail(outer, nullptr);
        mark(in[i]) = kReleased;
        in[kept++] = in[i];
      }
      this->below.release_batch(t, c, in, kept);
    }

    /// Within its class a block changes its size by moving its tail.
    Block resize_in_place(Thread& t, Block b, std::size_t n) noexcept {
      if (n > SIZE_MAX / 2) return {};
      Block outer = sized(b);
      std::uint8_t& mark = mark_of(b);
      if (!is_whole(outer, mark)) [[unlikely]] accuse_tail(outer, nullptr);
      n += n == 0;
      if (outer.size_class == kNoClass || n + kTail > outer.size) {
        outer = resize_below(this->below, t, outer, n + kTail);
        if (!outer) return {};
      } else if (n < (outer.size - gap_of(outer, mark)) / 2) {
        return {};  // much too large: a smaller class saves memory
      }
      return seal(outer, n, mark);
    }
    /// The same at once, for a block whose mark tells its length. False: nothing has changed, and `resize_in_place` knows why.
    MORTISE_HOT bool resize_hit(Block b, std::size_t n) noexcept {
      if (!is_aligned(b.ptr, kMinAlign)) [[unlikely]] return false;
      std::uint8_t& mark = this->mark(b.ptr);
      const Block outer{b.ptr, Below::Classes::size_of(b.class_index()), b.class_index()};
      const std::size_t before = outer.size - mark, gap = outer.size - n;
      if (n == 0 || n > outer.size || gap < kTail || gap > kFarthest || n < before / 2) return false;
      if (mark < kTail || !is_whole_near(outer, mark)) [[unlikely]] return false;
      seal(outer, n, mark);
      return true;
    }
    Block resize_by_moving(Thread& t, Block b, std::size_t n) noexcept requires Moves<Below> {
      if (n > SIZE_MAX / 2) return {};
      const Block outer = sized(b);
      std::uint8_t& mark = mark_of(b);
      const std::uint8_t held = mark;
      if (!is_whole(outer, held)) [[unlikely]] accuse_tail(outer, nullptr);
      mark = kReleased;  // while it is ours: when it has moved, the place may be somebody else's
      const Block moved = this->below.resize_by_moving(t, outer, n + kTail);
      if (moved) return seal(moved, n, mark_of(moved));
      mark = held;
      return {};
    }

    /// Checks every block that the program holds and reports each that is not whole; returns how many there are. Empties the caches;
    /// the heap must be at rest. O(heap).
    std::size_t check_all(Thread& t) noexcept requires Walks<Below> {
      trim_below(this->below, t);
      std::size_t broken = 0;
      this->below.each_live([&](Block outer) {
        const std::uint8_t mark = mark_of(outer);
        if (!is_held(mark) || is_whole(outer, mark)) return;  // those that are not held wait somewhere
        ++broken;
        accuse_tail(outer, nullptr);
      });
      return broken;
    }

   private:
    /// Every request up to here has a gap that its mark can tell, and is a hit that asks nothing where there are such.
    static constexpr std::size_t kNear = [] {
      std::size_t before = 0;
      for (unsigned c = 1; c <= Below::Classes::class_of(Below::Classes::kMaxBytes); ++c) {
        if (Below::Classes::size_of(c) - before + kTail > kFarthest) break;
        before = Below::Classes::size_of(c);
      }
      if constexpr (HitsNear<Below>) before = std::min(before, Below::kNearBytes);
      return before > kTail ? before - kTail : 0;
    }();

    MORTISE_HOT std::uint8_t& mark(const std::byte* p) noexcept { return this->block_marks().template mark<kPlane>(p); }
    /// Large blocks have theirs elsewhere; whoever does not know the class of a block that might be one asks.
    MORTISE_HOT std::uint8_t& mark_of(Block b) noexcept {
      constexpr std::size_t kGranule = MarksOf<Below>::kGranule;
      if (b.size_class == kNoClass && is_aligned(b.ptr, kGranule) && this->below.block_of(b.ptr).size_class == kNoClass)
        return this->block_marks().template large_mark<kPlane>(b.ptr);
      return mark(b.ptr);
    }
    MORTISE_HOT static bool is_held(std::uint8_t mark) noexcept { return mark >= kTail || mark == kFar; }
    MORTISE_HOT bool is_held(Block b) noexcept { return is_aligned(b.ptr, kMinAlign) && is_held(mark_of(b)); }
    /// What is to be known of the class of the block at `p`: below has it in one line with what its own hit wants, or it is the class.
    struct ClassAlone {
      unsigned size_class;
      MORTISE_HOT std::size_t bytes() const noexcept { return Below::Classes::size_of(size_class); }
    };
    static constexpr bool kBelowHasLines = requires { Below::line_of(0u); };
    MORTISE_HOT decltype(auto) line_of(std::byte* p) noexcept {
      const unsigned c = this->below.block_of(p).class_index();
      if constexpr (kBelowHasLines) return Below::line_of(c); else return ClassAlone{c};
    }
    template <class Line> MORTISE_HOT bool release_by(Thread& t, std::byte* p, const Line& line) noexcept {
      if constexpr (kBelowHasLines) return this->below.release_hit_by(t, p, line);
      else return this->below.release_hit(t, {p, line.bytes(), line.size_class});
    }
    Block sized(Block b) noexcept { return this->below.measure({b.ptr, 0, b.class_index()}); }

    MORTISE_HOT static std::uint64_t load(const std::byte* at) noexcept {
      std::uint64_t word;
      std::memcpy(&word, at, sizeof word);
      return word;
    }
    MORTISE_HOT static void store(std::byte* at, std::uint64_t word) noexcept { std::memcpy(at, &word, sizeof word); }

    void draw() noexcept {
      canary_ = os::entropy() | 0x0101'0101'0101'0101;  // no byte of it is the zero that ends a string
      for (std::size_t gap = kTail; gap <= kFarthest; ++gap) {
        const std::size_t bits = 8 * (gap - kTail);  // that the other word leaves of this one
        behind_[gap] = bits >= 64 ? canary_ : (canary_ << bits) | (canary_ & ((std::uint64_t{1} << bits) - 1));
      }
    }

    MORTISE_HOT Block seal(Block outer, std::size_t n, std::uint8_t& mark) const noexcept {
      const std::size_t gap = outer.size - n;
      return gap > kFarthest ? seal_far(outer, gap, mark) : seal_near(outer, n, gap, mark);
    }
    MORTISE_HOT Block seal_near(Block outer, std::size_t n, std::size_t gap, std::uint8_t& mark) const noexcept {
      const std::uint64_t canary = canary_;
      store(outer.ptr + n, canary);
      store(outer.ptr + outer.size - kTail, canary);
      mark = static_cast<std::uint8_t>(gap);
      return {outer.ptr, n, outer.class_index()};
    }
    MORTISE_HOT Block seal_far(Block outer, std::size_t gap, std::uint8_t& mark) const noexcept {
      mark = kFar;
      store(outer.end() - gap, canary_);
      store(outer.end() - kTail, canary_ ^ gap);
      return {outer.ptr, outer.size - gap, outer.class_index()};
    }
    /// What the last word says where the mark cannot: the gap; when it is not whole, one with no canary there.
    MORTISE_HOT std::uint64_t told_by(Block outer) const noexcept { return load(outer.end() - kTail) ^ canary_; }
    MORTISE_HOT std::uint64_t gap_of(Block outer, std::uint8_t mark) const noexcept { return mark == kFar ? told_by(outer) : mark; }

    MORTISE_HOT bool is_whole_near(Block outer, std::size_t gap) const noexcept {
      return load(outer.ptr + outer.size - kTail) == canary_ && load(outer.ptr + (outer.size - gap)) == behind_[gap];
    }
    bool is_whole_far(Block outer) const noexcept {
      const std::uint64_t gap = told_by(outer);
      return gap > kFarthest && gap <= outer.size && load(outer.end() - gap) == canary_;
    }
    bool is_whole(Block outer, std::uint8_t mark) const noexcept {
      return mark == kFar ? is_whole_far(outer) : is_whole_near(outer, mark);
    }

    /// The mark says so before the block goes: afterwards it may be anybody's.
    MORTISE_HOT bool release_whole(Thread& t, Block outer, std::uint8_t& mark, std::uint8_t held) noexcept {
      mark = kReleased;
      if (this->below.release_hit(t, outer)) [[likely]] return true;
      mark = held;
      return false;
    }

    MORTISE_COLD void accuse(Block b, const void* seen_at) noexcept {
      const std::uint8_t found = is_aligned(b.ptr, kMinAlign) ? mark_of(b) : 0;
      Crime crime{.fault = Fault::invalid_free, .block = {b.ptr, 0}, .seen_at = seen_at};
      if (found == kReleased) {
        crime.fault = Fault::double_free;
        if (b.size_class != kNoClass) crime.block = {b.ptr, Classes::size_of(b.class_index()), b.class_index()};
        if constexpr (Remembers<Below>) crime.freed_at = this->below.freed_at(b.ptr);
      } else if (found != 0) {
        crime.fault = Fault::header_overwritten;
      }
      OnFault::answer(crime);
    }
    MORTISE_COLD void accuse_tail(Block outer, const void* seen_at) const noexcept {
      OnFault::answer({.fault = Fault::tail_overwritten, .block = outer.shrunk_by(kTail), .seen_at = seen_at});
    }

    std::uint64_t canary_ = 0;
    std::size_t near_ = 0;  ///< kNear from the start on
    std::uint64_t behind_[kFarthest + 1] = {};  ///< by gap: the word behind the request
  };
};

}  // namespace mortise
