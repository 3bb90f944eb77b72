// HeaderMagic and TailChecksum in one, for less than what both take: the last word of a block says that it is held, and where it ends.
//
//   low address                                           high address
//   ┌───────────────────────────┬────────┬───────┬────────┐
//   │ the program's n bytes     │ canary │ slack │  seal  │   the block below; with less than 16 bytes to spare the two overlap
//   └───────────────────────────┴────────┴───────┴────────┘
//   ▲ ptr                       ▲ ptr + n                 ▲ gap = what lies between ptr + n and here: 8 bytes at least
//
// malloc: the canary, a secret word, goes behind the request, and the seal, another secret that tells the gap, to the end of the block
// (guard/seals.hpp).
// free: 1. the last word must be a seal, whose gap lies within the block; 2. the canary must be where it says; 3. it says `released`.
//
// Found: every release, resize or measuring of what is not held, and every write that changes one of the 8 bytes behind a request, the end
// of a string among them, or one of the 8 before the next block. A random byte is missed once in 255, where it is the same. Not
// watched: the slack between the two words. Who has read the words of one block knows all, and could make a seal; TailChecksum's last word
// is a function of the block's place besides.
// Nothing is kept out of line, so what is not held is told by what its last word says: a pointer into the inside of a block finds none, but
// for once in 2^56. What lies in a cache and was written to at its end, or never given out, is taken for a block that was written past.
//
// A wrong pointer shall not make free read where nobody may: a hit reads no further than the granule that `p` lies in, which is its slab's
// (that with the slab's wall has no class); a block that reaches into the next one is no hit: the span is asked whether one starts there.
// Misses: a block released by two threads at the very same moment (seals are plain words).
// When the OnFault slot goes on, a wrong release does not happen, and a block with a broken tail stays out of use.
//
// Takes 8 bytes a block. Bound: two words written, two read and one written. Progress: as below.
// Source: canaries as in [Cowan98]; magic numbers as in [Mortise24].
// Placement: above everything that keeps released blocks (quarantines, caches); needs size classes, and slabs that can be walked.
#pragma once

#include <algorithm>
#include <cstdint>

#include "mortise/core/core.hpp"
#include "mortise/data/bitmap.hpp"
#include "mortise/guard/seals.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/policy/coloured.hpp"
#include "mortise/policy/on_fault.hpp"
#include "mortise/policy/size_classes.hpp"
#include "mortise/shape/page_index.hpp"

namespace mortise {

/// `OnFault`: what comes after a wrong release or an overwritten tail.
template <OnFaultPolicy OnFault = on_fault::Configured> struct SealedTail {
  static constexpr const char* kName = "SealedTail";
  static constexpr const char* kWhat = "a canary and a seal behind each block: wrong releases, writes past the end";
  static constexpr const char* kNeeds = "a heap with size classes that finds blocks by pointer in slabs that can be walked (Slab), "
                                        "of which none lies within a span that is not its own (SampledGuards and SizeCheck stand above)";
  static constexpr std::size_t kTail = Seals::kBytes;
  template <class Out> static void describe(Out& out) {
    out.layer(kName, kWhat).policy("OnFault", OnFault::kName).number("tail_bytes", kTail);
  }

  template <Locates Below>
      requires Indexed<Below> && Classed<Below> && Walks<Below> &&
               (!(planes_taken<Below>() & kWipes) && facts_of<Below>().spans != Spans::none) && (!ChecksSizes<Below>)
  class Over : public Passthrough<Below> {
    static constexpr std::size_t kGranule = IndexOf<Below>::kGranule;

   public:
    using typename Passthrough<Below>::Thread;
    using Classes = Shrunk<typename Below::Classes, kTail>;
    static constexpr BlockFacts kFacts = facts_of<Below>().shared();
    static constexpr bool kExactSizes = true, kTellsEverySize = true, kTakesUnsized = true,
                          kHitsAlone = requires { requires Below::kHitsAlone; };

    bool start(const os::Facts& facts) noexcept {
      seals_.draw();
      if (!start_below(this->below, facts)) return false;
      near_ = kNear;
      return true;
    }

    MORTISE_HOT Block allocate(Thread& t, Request r) noexcept {
      r.size += r.size == 0;
      const Block outer = this->below.allocate(t, r.grown_by(kTail));
      return outer ? seals_.seal(outer, r.size) : Block{};
    }
    MORTISE_HOT void release(Thread& t, Block b) noexcept {
      const Seen seen = look_at(b);
      if (!seen) [[unlikely]] return accuse(seen, b.ptr, call_site());
      Seals::store(seen.outer.end() - kTail, seals_.released());
      this->below.release(t, seen.outer);
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
        return seals_.seal(outer, r.size);
      }
      if (static_cast<std::ptrdiff_t>(r.size - 1) < 0) [[unlikely]] return {};
      wish.size += kTail;
      const Block outer = this->below.allocate_hit(t, wish);
      if (!outer) [[unlikely]] return {};
      return seals_.seal(outer, r.size);
    }
    /// No for a block that is not held or not whole, so that `release` is called and says so; among them all without a class.
    MORTISE_HOT bool release_hit(Thread& t, Block b) noexcept requires Hits<Below> {
      Block outer;
      if (!is_near(b, outer)) [[unlikely]] return false;
      const std::uint64_t held = Seals::last_word(outer);
      if (!seals_.is_whole(outer, seals_.gap_in(held))) [[unlikely]] return false;
      return release_whole(t, outer, held);
    }

    /// Of a pointer as the program gives it, which need not be one of ours.
    MORTISE_HOT Tried release_at(Thread& t, std::byte* p) noexcept requires Hits<Below> {
      if (!this->page_index().holds_place(this->page_index().place_of(p))) [[unlikely]] return Tried::refused;
      const auto& line = line_of(p);
      const Block outer{p, line.bytes(), kNoClass};
      if (!lies_in_granule(outer)) [[unlikely]] return Tried::refused;
      if (!seals_.is_whole(outer, seals_.gap_in(Seals::last_word(outer)))) [[unlikely]] return Tried::refused;
      Seals::store(outer.end() - kTail, seals_.released());
      return release_by(t, p, line) ? Tried::done : Tried::checked;
    }
    /// The same for `n` bytes, as the program says: both words are known.
    MORTISE_HOT Tried release_at_of_size(Thread& t, std::byte* p, std::size_t n) noexcept requires Hits<Below> {
      if (!this->page_index().holds_place(this->page_index().place_of(p))) [[unlikely]] return Tried::refused;
      const auto& line = line_of(p);
      const Block outer{p, line.bytes(), kNoClass};
      if (!lies_in_granule(outer) || !seals_.is_whole_of(outer, n)) [[unlikely]] return Tried::refused;
      Seals::store(outer.end() - kTail, seals_.released());
      return release_by(t, p, line) ? Tried::done : Tried::checked;
    }
    void release_checked(Thread& t, std::byte* p) noexcept requires Hits<Below> {
      const unsigned c = this->below.block_of(p).class_index();  // what has none is no hit
      this->below.release(t, {p, Below::Classes::size_of(c), c});
    }
    MORTISE_HOT bool release_hit_of_size(Thread& t, Block b, std::size_t n) noexcept requires Hits<Below> {
      Block outer;
      if (!is_near(b, outer) || !seals_.is_whole_of(outer, n)) [[unlikely]] return false;
      return release_whole(t, outer, Seals::last_word(outer));
    }

    Block block_of(std::byte* p) noexcept {
      const Block outer = this->below.block_of(p);
      return {p, 0, outer.class_index()};
    }
    /// The size is that of the request. A pointer that no held block starts at, and a block that is not whole, have none to tell, and are
    /// reported: they are about to be resized, or believed.
    Block measure(Block b) noexcept {
      const Seen seen = look_at(b);
      if (!seen) [[unlikely]] {
        accuse(seen, b.ptr, nullptr);
        return seen.state == State::broken ? seen.outer.shrunk_by(kTail) : Block{b.ptr, 0, b.class_index()};
      }
      return {b.ptr, seen.outer.size - seals_.gap_in(Seals::last_word(seen.outer)), seen.outer.class_index()};
    }
    /// Whether it could be released, without a word if not.
    bool is_held(Block b) noexcept { return static_cast<bool>(look_at(b)); }
    MORTISE_HOT bool has_size(Block b, std::size_t n) noexcept {
      Block outer;
      if (!is_near(b, outer)) [[unlikely]] {
        const Seen seen = look_at(b);
        return seen && seen.outer.size - seals_.gap_in(Seals::last_word(seen.outer)) == n;
      }
      return outer.size - seals_.gap_in(Seals::last_word(outer)) == n;
    }

    unsigned allocate_batch(Thread& t, unsigned c, std::byte** out, unsigned n) noexcept requires Batches<Below> {
      const unsigned got = this->below.allocate_batch(t, c, out, n);
      for (unsigned i = 0; i < got; ++i) seals_.seal({out[i], Below::Classes::size_of(c), c}, Classes::size_of(c));
      return got;
    }
    void release_batch(Thread& t, unsigned c, std::byte** in, unsigned n) noexcept requires Batches<Below> {
      unsigned kept = 0;
      for (unsigned i = 0; i < n; ++i) {
        const Seen seen = look_at({in[i], 0, c});
        if (!seen) [[unlikely]] {
          accuse(seen, in[i], nullptr);
          continue;
        }
        Seals::store(seen.outer.end() - kTail, seals_.released());
        in[kept++] = in[i];
      }
      this->below.release_batch(t, c, in, kept);
    }

    /// Within its class a block changes its size by moving its tail.
    Block resize_in_place(Thread& t, Block b, std::size_t n) noexcept {
      if (n > SIZE_MAX / 2) return {};
      const Seen seen = look_at(b);
      if (!seen) [[unlikely]] {
        accuse(seen, b.ptr, nullptr);
        return {};
      }
      n += n == 0;
      Block outer = seen.outer;
      if (outer.size_class == kNoClass || n + kTail > outer.size) {
        std::byte* const at = outer.end() - kTail;
        const std::uint64_t held = Seals::load(at);
        Seals::store(at, seals_.released());  // of a place that is no block's end any more nobody shall find a seal
        outer = resize_below(this->below, t, outer, n + kTail);
        if (!outer) return Seals::store(at, held), Block{};
      } else if (n < (outer.size - seals_.gap_in(Seals::last_word(outer))) / 2) {
        return {};  // much too large: a smaller class saves memory
      }
      return seals_.seal(outer, n);
    }
    /// The same at once, for a block with a size class. False: nothing has changed, and `resize_in_place` knows why.
    MORTISE_HOT bool resize_hit(Block b, std::size_t n) noexcept {
      Block outer;
      if (!is_near(b, outer) || n == 0 || n > outer.size - kTail) return false;
      const std::uint64_t gap = seals_.gap_in(Seals::last_word(outer));
      if (gap > outer.size || n < (outer.size - gap) / 2 || !seals_.is_whole(outer, gap)) [[unlikely]] return false;
      seals_.seal(outer, n);
      return true;
    }
    Block resize_by_moving(Thread& t, Block b, std::size_t n) noexcept requires Moves<Below> {
      if (n > SIZE_MAX / 2) return {};
      const Seen seen = look_at(b);
      if (!seen) [[unlikely]] {
        accuse(seen, b.ptr, nullptr);
        return {};
      }
      const std::uint64_t held = Seals::last_word(seen.outer);
      Seals::store(seen.outer.end() - kTail, seals_.released());  // while it is ours: when it has moved, the place may be somebody else's
      const Block moved = this->below.resize_by_moving(t, seen.outer, n + kTail);
      if (moved) return seals_.seal(moved, n);
      Seals::store(seen.outer.end() - kTail, held);
      return {};
    }

    void reset_after_fork() noexcept {
      has_forked_ = true;
      reset_below(this->below);
    }
    /// Checks every block that the program holds and reports each that is not whole; returns how many there are. Empties the caches;
    /// the heap must be at rest. O(heap).
    std::size_t check_all(Thread& t) noexcept {
      trim_below(this->below, t);
      ClassUsage classes[Classes::kCount + 1] = {};
      Usage usage{.classes = classes, .classes_max = Classes::kCount + 1};
      tell_below(this->below, usage);
      std::size_t broken = 0;
      this->below.each_live([&](Block outer) {
        const std::uint64_t word = Seals::last_word(outer);
        if (word == seals_.released() || seals_.is_whole(outer, seals_.gap_in(word))) return;
        // In caches that could not be emptied, and where a fork met a thread amid a call, a block may never have been given out:
        // what is left of a seal tells that it was.
        const ClassUsage& k = classes[plain_class<typename Below::Classes>(outer.class_index())];
        if (!seals_.was_a_seal(word) && (has_forked_ || k.cached + k.waiting != 0)) return;
        ++broken;
        accuse({State::broken, outer}, outer.ptr, nullptr);
      });
      return broken;
    }

   private:
    enum class State : std::uint8_t { held, released, broken, nothing };
    struct Seen {
      State state;
      Block outer;  ///< with its size, where one starts
      explicit operator bool() const { return state == State::held; }
    };

    /// Every request up to here has a gap that the table has, and is a hit that asks nothing where there are such.
    static constexpr std::size_t kNear = [] {
      std::size_t before = 0;
      for (unsigned c = 1; c <= Below::Classes::class_of(Below::Classes::kMaxBytes); ++c) {
        if (Below::Classes::size_of(c) - before + kTail > Seals::kFarthest) break;
        before = Below::Classes::size_of(c);
      }
      if constexpr (HitsNear<Below>) before = std::min(before, Below::kNearBytes);
      return before > kTail ? before - kTail : 0;
    }();

    /// Whether what is to be read of a block of this size is memory for certain: granules lie at multiples of their size.
    MORTISE_HOT static bool lies_in_granule(Block outer) noexcept {
      return address_of(outer.ptr) % kGranule + outer.size <= kGranule;
    }
    /// The block at `b`, whose class is known, for a hit.
    MORTISE_HOT static bool is_near(Block b, Block& outer) noexcept {
      outer = {b.ptr, Below::Classes::size_of(b.class_index()), b.class_index()};
      return b.size_class != kNoClass && is_aligned(b.ptr, kMinAlign) && lies_in_granule(outer);
    }
    /// What is to be known of the class of the block at `p`: below has it in one line with what its own hit wants, or it is the class.
    struct ClassAlone {
      unsigned size_class;
      MORTISE_HOT std::size_t bytes() const noexcept { return size_class ? Below::Classes::size_of(size_class) : kGranule + 1; }
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
    /// The seal says so before the block goes: afterwards it may be anybody's.
    MORTISE_HOT bool release_whole(Thread& t, Block outer, std::uint64_t held) noexcept {
      Seals::store(outer.end() - kTail, seals_.released());
      if (this->below.release_hit(t, outer)) [[likely]] return true;
      Seals::store(outer.end() - kTail, held);
      return false;
    }
    Block sized(Block b) noexcept { return this->below.measure({b.ptr, 0, b.class_index()}); }

    /// Whether a block starts at `b` in its span; number `i` of its slab.
    bool starts(Block b, std::size_t& i) noexcept {
      auto& index = this->page_index();
      const Span* const s = b.size_class == kNoClass ? &index.spans()[index.number_of(b.ptr)] : index.span_of(b.ptr);
      if (b.size_class == kNoClass) return s->state == SpanState::large && index.base_of(s) == b.ptr;
      const std::size_t size = Below::Classes::size_of(b.class_index()), offset = static_cast<std::size_t>(b.ptr - index.base_of(s));
      i = offset / size;
      return offset % size == 0 && s->state == SpanState::slab && i < s->capacity;
    }
    /// Whether it waits in a quarantine, whatever its last word says: it was written to since.
    bool waits(const std::byte* p) noexcept {
      if constexpr (Remembers<Below>) return this->below.freed_at(p) != nullptr; else return false;
    }
    Seen look_at(Block b) noexcept {
      if (!is_aligned(b.ptr, kMinAlign)) return {State::nothing, {}};
      b = this->below.block_of(b.ptr);
      Block outer;
      std::size_t i = 0;
      if (!is_near(b, outer)) {
        if (!starts(b, i)) return {b.size_class == kNoClass && this->page_index().is_free_at(b.ptr) ? State::released : State::nothing, {}};
        outer = sized(b);
      }
      const std::uint64_t word = Seals::last_word(outer);
      if (seals_.is_whole(outer, seals_.gap_in(word))) return {State::held, outer};
      return {starts(b, i) ? state_of(outer, word, i) : State::nothing, outer};
    }
    /// Of a block that is not whole. Its slab knows best; its lock is not taken, so that only who is accused anyway asks.
    MORTISE_COLD State state_of(Block outer, std::uint64_t word, std::size_t i) noexcept {
      const Span* const s = this->page_index().span_of(outer.ptr);
      const bool is_small = outer.size_class != kNoClass;
      if (is_small && i >= s->bump) return State::nothing;
      if (is_small && Bitmap(this->page_index().bits_of(s)).test(static_cast<unsigned>(i))) return State::released;
      return word == seals_.released() || waits(outer.ptr) ? State::released : State::broken;
    }

    MORTISE_COLD void accuse(Seen seen, std::byte* p, const void* seen_at) noexcept {
      Crime crime{.fault = Fault::invalid_free, .block = {p, 0}, .seen_at = seen_at};
      if (seen.state == State::released) {
        crime.fault = Fault::double_free;
        if (seen.outer.size_class != kNoClass) crime.block = {p, Classes::size_of(seen.outer.class_index()), seen.outer.class_index()};
        if constexpr (Remembers<Below>) crime.freed_at = this->below.freed_at(p);
      } else if (seen.state == State::broken) {
        crime.fault = Fault::tail_overwritten;
        crime.block = seen.outer.shrunk_by(kTail);
      }
      OnFault::answer(crime);
    }

    std::size_t near_ = 0;  ///< kNear from the start on
    bool has_forked_ = false;
    Seals seals_;
  };
};

}  // namespace mortise
