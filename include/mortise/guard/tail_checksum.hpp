// A checksum behind each block: a write past its end is found when the block is released, or by a walk before that.
//
//   low address                                             high address
//   ┌───────────────────────────┬──────────────┬──────────────┐
//   │ the program's n bytes     │ canary       │ tag ^ slack  │   the block below
//   └───────────────────────────┴──────────────┴──────────────┘
//   ▲ ptr                       ▲ ptr + n       ▲ the last 8 bytes: a function of ptr and a secret, xor the canary's length
//
// The block ends where the request ended, to the byte: what its class has beyond is the slack, and the first kWatched bytes of
// it are a canary. So the first byte past the end is watched, whatever the class.
//
// release: 1. the last word, xor the tag of ptr, must be a length in its upper 16 bits, no longer than the block, and zero below; 2. the
// canary must be whole. Miss rate of a write that is not aimed at the secret: 2^-48 when it reaches the last word; when it changes
// only k bytes of the canary it is found unless it writes the very bytes that are there (1/255 for one random byte). Bytes between
// those and the last word are not watched, nor a block's neighbours before its start. A slack of more than 64 KiB counts as that:
// small blocks on alignments beyond 16 KiB, and large ones that were made smaller in place, end later than their requests.
//
// When the OnFault slot goes on, the block is released as if it were whole.
// Takes 8 bytes a block. Progress: as below. Source: canaries as in [Cowan98]; a checksum at the tail as in [Mortise24].
// Placement: anywhere above a heap that finds blocks; above a cache every release is checked, below it (kToTheByte off) only those
// that leave it. With DelayedFree: above it, so that a block is whole when it enters the quarantine.
#pragma once

#include <bit>
#include <cstring>

#include "mortise/core/core.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/policy/on_fault.hpp"
#include "mortise/policy/size_classes.hpp"
#include "mortise/policy/tag.hpp"

namespace mortise {

/// `Tag`: what the last word is made of.
/// `OnFault`: what comes after an overwritten tail.
/// `kToTheByte`: blocks end where the request ended. Without, they end where their class does: below a cache, which hands out what
/// was asked for once to whoever asks for another size of the class.
/// `kWatched` (8..16, power of two): so many bytes behind the request are watched, where there is slack.
template <TagPolicy Tag = tag::Mixed, OnFaultPolicy OnFault = on_fault::Configured, bool kToTheByte = true,
          unsigned kWatched = 8>
struct TailChecksum {
  static_assert(kWatched == 8 || kWatched == 16, "one word of the slack is watched, or two");
  static constexpr const char* kName = "TailChecksum";
  static constexpr const char* kWhat = "a keyed word and a canary behind each block, checked when it is released";
  static constexpr const char* kNeeds = "a heap below that finds blocks by pointer, and does not wipe them (ZeroOnFree) "
                                        "or compare their sizes (SizeCheck stands above); one guard of tails for size classes";
  static constexpr std::size_t kTail = 8;
  template <class Out> static void describe(Out& out) {
    out.layer(kName, kWhat).policy("Tag", Tag::kName).policy("OnFault", OnFault::kName).number("tail_bytes", kTail);
  }

  template <Locates Below>
      requires (!(planes_taken<Below>() & kWipes) && !ChecksSizes<Below> && !(Classed<Below> && kSizesExactly<Below>))
  class Over : public Passthrough<Below> {
   public:
    using typename Passthrough<Below>::Thread;
    using Classes = Shrunk<typename Below::Classes, kTail>;
    static constexpr BlockFacts kFacts = facts_of<Below>().shared();
    static constexpr bool kExactSizes = kToTheByte, kTakesUnsized = true;

    bool start(const os::Facts& facts) noexcept {
      if (!canary_) {
        tag_.draw();
        canary_ = os::entropy() | 0x0101010101010101ull;  // no byte of it is the zero that ends a string
      }
      return start_below(this->below, facts);
    }

    MORTISE_HOT Block allocate(Thread& t, Request r) noexcept { return seal(this->below.allocate(t, grown(r)), r.size); }
    MORTISE_HOT void release(Thread& t, Block b) noexcept {
      const Block outer = sized(b);
      if (!is_whole(outer)) [[unlikely]] accuse(outer, call_site());
      this->below.release(t, outer);
    }

    /// No for nothing and for what has no class: one comparison for both, so that neither the sum nor the slack can be too large.
    MORTISE_HOT Block allocate_hit(Thread& t, Request r) noexcept requires Hits<Below> && Classed<Below> {
      if (r.size - 1 >= Classes::kMaxBytes) [[unlikely]] return {};
      Request wish = r;
      wish.size += kTail;
      const Block outer = this->below.allocate_hit(t, wish);
      if (!outer) [[unlikely]] return {};
      const std::size_t slack = r.align <= kMinAlign && kStepsAreShort ? outer.size - kTail - r.size : slack_in(outer, r.size);
      return seal_with(outer, kToTheByte ? slack : 0);
    }
    MORTISE_HOT Block allocate_hit(Thread& t, Request r) noexcept requires Hits<Below> && (!Classed<Below>) {
      if (r.size - 1 >= kSlackMax) [[unlikely]] return {};
      Request wish = r;
      wish.size += kTail;
      const Block outer = this->below.allocate_hit(t, wish);
      if (!outer) [[unlikely]] return {};
      return seal_with(outer, slack_in(outer, r.size));
    }
    /// No for a block that is not whole, so that `release` is called and says so.
    MORTISE_HOT bool release_hit(Thread& t, Block b) noexcept requires Hits<Below> {
      Block outer;
      if constexpr (Classed<Below>) {
        if (b.size_class == kNoClass) [[unlikely]] return false;
        outer = {b.ptr, Below::Classes::size_of(b.class_index()), b.class_index()};
      } else {
        outer = this->below.measure(b);
      }
      if (!is_whole(outer)) [[unlikely]] return false;
      return this->below.release_hit(t, outer);
    }

    /// What is behind a block of known size is known as well: two comparisons.
    MORTISE_HOT bool release_hit_of_size(Thread& t, Block b, std::size_t n) noexcept
        requires(kToTheByte && kWatched == 8) && Hits<Below> && Classed<Below> {
      if (b.size_class == kNoClass) [[unlikely]] return false;
      const Block outer{b.ptr, Below::Classes::size_of(b.class_index()), b.class_index()};
      const std::size_t room = outer.size - kTail, slack = room - n;
      if (slack >= room || slack_told_by(outer) != slack) [[unlikely]] return false;
      if ((load(b.ptr + n) ^ canary_) & kMask[slack < 8 ? slack : 8]) [[unlikely]] return false;
      return this->below.release_hit(t, outer);
    }

    Block block_of(std::byte* p) noexcept {
      const Block outer = this->below.block_of(p);
      return {p, 0, outer.class_index()};
    }
    /// The size is that of the request; a block that is not whole has none to tell, and is reported.
    Block measure(Block b) noexcept {
      const Block outer = this->below.measure({b.ptr, 0, b.class_index()});
      if (!is_whole(outer)) [[unlikely]] {
        accuse(outer, nullptr);
        return outer.shrunk_by(kTail);
      }
      return {b.ptr, length_of(outer), outer.class_index()};
    }

    MORTISE_HOT bool has_size(Block b, std::size_t n) noexcept requires(kToTheByte) && Classed<Below> {
      const Block outer{b.ptr, Below::Classes::size_of(b.class_index()), b.class_index()};
      return outer.size - kTail - slack_told_by(outer) == n;
    }

    unsigned allocate_batch(Thread& t, unsigned c, std::byte** out, unsigned n) noexcept requires Batches<Below> {
      const unsigned got = this->below.allocate_batch(t, c, out, n);
      for (unsigned i = 0; i < got; ++i) seal({out[i], Below::Classes::size_of(c), c}, Classes::size_of(c));
      return got;
    }
    void release_batch(Thread& t, unsigned c, std::byte** in, unsigned n) noexcept requires Batches<Below> {
      for (unsigned i = 0; i < n; ++i) {
        const Block outer{in[i], Below::Classes::size_of(c), c};
        if (!is_whole(outer)) [[unlikely]] accuse(outer, nullptr);
      }
      this->below.release_batch(t, c, in, n);
    }

    /// Within its class a block changes its size by moving its tail.
    Block resize_in_place(Thread& t, Block b, std::size_t n) noexcept {
      if (n > SIZE_MAX / 2) return {};
      Block outer = sized(b);
      if (!is_whole(outer)) [[unlikely]] accuse(outer, nullptr);
      n += n == 0;
      if (outer.size_class == kNoClass || n + kTail > outer.size) {
        outer = resize_below(this->below, t, outer, n + kTail);
        if (!outer) return {};
      } else if (n < length_of(outer) / 2) {
        return {};  // much too large: a smaller class saves memory
      }
      return seal(outer, n);
    }
    /// The same at once, for a block with a size class. False: nothing has changed, and `resize_in_place` knows why.
    MORTISE_HOT bool resize_hit(Block b, std::size_t n) noexcept requires Classed<Below> {
      const Block outer{b.ptr, Below::Classes::size_of(b.class_index()), b.class_index()};
      if (b.size_class == kNoClass || n == 0 || n > outer.size - kTail) return false;
      if (!is_whole(outer) || n < length_of(outer) / 2) [[unlikely]] return false;
      seal(outer, n);
      return true;
    }
    Block resize_by_moving(Thread& t, Block b, std::size_t n) noexcept requires Moves<Below> {
      if (n > SIZE_MAX / 2) return {};
      const Block outer = sized(b);
      if (!is_whole(outer)) [[unlikely]] accuse(outer, nullptr);
      const Block moved = this->below.resize_by_moving(t, outer, n + kTail);
      return moved ? seal(moved, n) : Block{};
    }

    /// Checks every block that the program holds and reports each that is not whole; returns how many there are. Empties the caches,
    /// to know which blocks are held: the heap must be at rest. O(heap).
    std::size_t check_all(Thread& t) noexcept requires Walks<Below> {
      trim_below(this->below, t);
      std::size_t broken = 0;
      this->below.each_live([&](Block outer) {
        if (is_whole(outer)) return;
        ++broken;
        accuse(outer, nullptr);
      });
      return broken;
    }

   private:
    static constexpr std::size_t kSlackMax = 0xffff;
    static constexpr std::uint64_t kMask[9] = {0, 0xff, 0xffff, 0xff'ffff, 0xffff'ffff, 0xff'ffff'ffff, 0xffff'ffff'ffff,
                                               0xff'ffff'ffff'ffff, ~std::uint64_t{0}};

    MORTISE_HOT static Request grown(Request r) noexcept {
      r.size += r.size == 0;
      return r.grown_by(kTail);
    }
    Block sized(Block b) noexcept { return this->below.measure({b.ptr, 0, b.class_index()}); }

    static std::uint64_t load(const std::byte* at) noexcept {
      std::uint64_t word;
      std::memcpy(&word, at, sizeof word);
      return word;
    }
    /// Whether what a class has beyond the next smaller one can always be told.
    static constexpr bool steps_are_short() noexcept {
      if constexpr (Classed<Below>) {
        std::size_t before = 0;
        for (unsigned c = 1; c <= Below::Classes::class_of(Below::Classes::kMaxBytes); ++c) {
          if (Below::Classes::size_of(c) - before > kSlackMax) return false;
          before = Below::Classes::size_of(c);
        }
      }
      return Classed<Below>;
    }
    static constexpr bool kStepsAreShort = steps_are_short();

    MORTISE_HOT static std::size_t slack_in(Block outer, std::size_t n) noexcept {
      if (!kToTheByte) return 0;
      const std::size_t slack = outer.size - kTail - (n + (n == 0));
      return slack > kSlackMax ? kSlackMax : slack;
    }
    MORTISE_HOT Block seal(Block outer, std::size_t n) noexcept {
      if (!outer) [[unlikely]] return outer;
      return seal_with(outer, slack_in(outer, n));
    }
    MORTISE_HOT Block seal_with(Block outer, std::size_t slack) noexcept {
      std::byte* const tail = outer.end() - kTail;
      std::byte* const end = tail - slack;
      std::memcpy(end, &canary_, sizeof canary_);
      if constexpr (kWatched > 8) std::memcpy(end + 8 < tail ? end + 8 : tail, &canary_, sizeof canary_);
      const std::uint64_t word = tag_.of(address_of(outer.ptr)) ^ (std::uint64_t{slack} << 48);
      std::memcpy(tail, &word, sizeof word);
      return {outer.ptr, static_cast<std::size_t>(tail - outer.ptr) - slack, outer.class_index()};
    }
    /// What the last word says: the slack, or, when it is not whole, more than any block has.
    MORTISE_HOT std::uint64_t slack_told_by(Block outer) const noexcept {
      return std::rotl(load(outer.end() - kTail) ^ tag_.of(address_of(outer.ptr)), 16);
    }
    /// No jump depends on how long the slack is: sizes are mixed, and it would be mispredicted.
    MORTISE_HOT bool is_whole(Block outer) const noexcept {
      const std::byte* const tail = outer.end() - kTail;
      const std::uint64_t slack = slack_told_by(outer);
      if (slack > outer.size - kTail) [[unlikely]] return false;
      const std::byte* const end = tail - slack;
      std::uint64_t wrong = (load(end) ^ canary_) & kMask[slack < 8 ? slack : 8];
      if constexpr (kWatched > 8) {
        const std::byte* const second = end + 8 < tail ? end + 8 : tail;
        wrong |= (load(second) ^ canary_) & kMask[tail - second < 8 ? tail - second : 8];
      }
      return wrong == 0;
    }
    std::size_t length_of(Block outer) const noexcept { return outer.size - kTail - slack_told_by(outer); }

    MORTISE_COLD void accuse(Block outer, const void* seen_at) const noexcept {
      OnFault::answer({.fault = Fault::tail_overwritten, .block = outer.shrunk_by(kTail), .seen_at = seen_at});
    }

    Tag tag_;
    std::uint64_t canary_ = 0;
  };
};

}  // namespace mortise
