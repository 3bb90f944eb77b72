// A sized or aligned delete must name the size and alignment that were asked for: a delete through the wrong type is found.
//
// The size is compared to the byte where blocks end where their requests did (TailChecksum below), else by size class. The alignment
// is compared with the pointer's, and with the block's class, which is as large as any alignment it was chosen for: one that a large
// block has by chance is not found.
//
// When the OnFault slot goes on, the block is released as what it is.
// Bound: O(1). Progress: as below. Source: size checks as in [hardened_malloc] and [Scudo].
// Placement: above TailChecksum; asked by whoever owns the stack, before it releases.
#pragma once

#include "mortise/core/core.hpp"
#include "mortise/policy/coloured.hpp"
#include "mortise/policy/on_fault.hpp"

namespace mortise {

/// `OnFault`: what comes after a mismatch.
template <OnFaultPolicy OnFault = on_fault::Configured> struct SizeCheck {
  static constexpr const char* kName = "SizeCheck";
  static constexpr const char* kWhat = "sized and aligned deletes are compared with the request";
  static constexpr const char* kNeeds = "a heap below that finds blocks by pointer, with size classes or exact sizes";
  template <class Out> static void describe(Out& out) { out.layer(kName, kWhat).policy("OnFault", OnFault::kName); }

  template <Locates Below> requires Classed<Below> || kSizesExactly<Below> class Over : public Passthrough<Below> {
   public:
    using typename Passthrough<Below>::Thread;
    using typename Passthrough<Below>::Classes;
    static constexpr bool kTakesUnsized = kTakesUnsizedBlocks<Below>, kHitsAlone = requires { requires Below::kHitsAlone; };

    MORTISE_HOT Block allocate_hit(Thread& t, Request r) noexcept requires Hits<Below> { return this->below.allocate_hit(t, r); }
    MORTISE_HOT bool release_hit(Thread& t, Block b) noexcept requires Hits<Below> { return this->below.release_hit(t, b); }

    MORTISE_HOT bool release_hit_of_size(Thread& t, Block b, std::size_t n) noexcept requires HitsBySize<Below> {
      return this->below.release_hit_of_size(t, b, n);
    }

    MORTISE_HOT Tried release_at(Thread& t, std::byte* p) noexcept requires requires(Below& h) { h.release_at(t, p); } {
      return this->below.release_at(t, p);
    }
    MORTISE_HOT Tried release_at_of_size(Thread& t, std::byte* p, std::size_t n) noexcept
        requires requires(Below& h) { h.release_at_of_size(t, p, n); } {
      return this->below.release_at_of_size(t, p, n);
    }
    void release_checked(Thread& t, std::byte* p) noexcept requires requires(Below& h) { h.release_checked(t, p); } {
      this->below.release_checked(t, p);
    }

    MORTISE_HOT bool resize_hit(Block b, std::size_t n) noexcept requires requires(Below& h) { h.resize_hit(b, n); } {
      return this->below.resize_hit(b, n);
    }

    /// Reports a size or an alignment that the block at `p` was not made with. `size` 0: none was named.
    MORTISE_HOT void check_size(std::byte* p, std::size_t size, std::size_t align) noexcept {
      if (!can_have(p, align)) [[unlikely]] return accuse(Fault::align_mismatch, {p, 0}, call_site());
      if (size && !agrees(p, size, align)) [[unlikely]] accuse(Fault::size_mismatch, this->below.measure({p, 0}), call_site());
    }

   private:
    /// Guards below take some bytes of a block that was made as large as its alignment, never half of it.
    MORTISE_HOT bool can_have(std::byte* p, std::size_t align) noexcept {
      if (!is_aligned(p, align)) return false;
      if (align <= kMinAlign) [[likely]] return true;
      if constexpr (!Classed<Below>) return true;
      else return is_as_large(this->below.block_of(p).class_index(), align / 2);
    }
    static bool is_as_large(unsigned c, std::size_t n) noexcept { return c == kNoClass || Below::Classes::size_of(c) >= n; }
    MORTISE_HOT bool agrees(std::byte* p, std::size_t size, std::size_t align) noexcept {
      const Block found = this->below.block_of(p);
      if constexpr (KnowsSizes<Below>)
        if (found.size_class != kNoClass && this->below.has_size(found, size)) [[likely]] return true;
      if (!is_held(found)) [[unlikely]] return true;
      if constexpr (KnowsSizes<Below>)
        if (found.size_class != kNoClass) return false;
      return agrees_when_measured(found, size, align);
    }
    /// Of what is not, or not whole, the release says so itself, with its place.
    bool is_held(Block b) noexcept {
      if constexpr (requires { this->below.is_held(b); }) return this->below.is_held(b);
      else return true;
    }
    bool agrees_when_measured(Block found, std::size_t size, std::size_t align) noexcept {
      const Block b = this->below.measure(found);
      if constexpr (kSizesExactly<Below>) {
        // A large block made for an alignment may be larger than a tail can tell.
        constexpr bool kTellsEvery = requires { requires Below::kTellsEverySize; };
        return b.size == size || (!kTellsEvery && b.size_class == kNoClass && size < b.size);
      } else {
        if (b.size_class == kNoClass) return size <= b.size;
        const std::size_t enlarged = align > kMinAlign ? round_up(size, align) : size;
        return enlarged <= Classes::kMaxBytes && Classes::class_of(enlarged) == plain_class<Classes>(b.class_index());
      }
    }
    MORTISE_COLD static void accuse(Fault fault, Block b, const void* site) noexcept {
      OnFault::answer({.fault = fault, .block = b, .seen_at = site});
    }
  };
};

}  // namespace mortise
