// A header before each block that says how large it is: finds blocks by pointer where no page index can.
//
//   low address                                        high address
//   ┌ ─ ─ ─ ─ ┬─────────────────────────────┬──────────────┐
//     skipped │ tag │ skipped/16 │ size,class│ the program's│   skipped: only for alignments beyond 16
//   └ ─ ─ ─ ─ ┴─────────────────────────────┴──────────────┘
//   ▲ below's block          16 bytes       ▲ pointer, aligned as asked
//
// The tag is made of the pointer, so that a pointer that is none of ours, or a header that was overwritten, is noticed.
// Costs 16 bytes a block. Progress: as below. Placement: over any heap; instead of PageIndex.
#pragma once

#include <cstring>

#include "mortise/core/core.hpp"
#include "mortise/policy/size_classes.hpp"
#include "mortise/shape/page_index.hpp"

namespace mortise {

struct SizedHeader {
  static constexpr const char* kName = "SizedHeader";
  static constexpr const char* kWhat = "16 bytes before each block: its size, its class, and a tag";
  static constexpr const char* kNeeds = "any heap below that compares no sizes (SizeCheck stands above)";
  template <class Out> static void describe(Out& out) { out.layer(kName, kWhat).number("header_bytes", kHeader); }
  static constexpr std::size_t kHeader = 16;
  static constexpr std::size_t kAlignMax = 32_GiB;  ///< what is skipped for it has its place in the header

  template <Heap Below> requires (!ChecksSizes<Below>) class Over : public Passthrough<Below> {
   public:
    using typename Passthrough<Below>::Thread;
    using Classes = Shrunk<typename Below::Classes, kHeader>;
    static constexpr BlockFacts kFacts = facts_of<Below>().with_headers();

    Block allocate(Thread& t, Request r) noexcept {
      const bool natural = r.align <= kMinAlign;
      const std::size_t room = natural ? kHeader : kHeader + r.align;
      const std::size_t align = r.align;
      if (align > kAlignMax || r.size > SIZE_MAX - room) return {};
      r.align = kMinAlign;
      r.size += r.size == 0;
      const Block outer = this->below.allocate(t, r.grown_by(room));
      if (!outer) return {};
      const std::uintptr_t first = address_of(outer.ptr) + kHeader;
      const std::size_t skipped = natural ? 0 : round_up(first, align) - first;
      return seal(outer, skipped, natural ? outer.class_index() : kNoClass);
    }
    void release(Thread& t, Block b) noexcept { this->below.release(t, unseal(b.ptr)); }

    /// True for pointers that carry our tag; reads the 16 bytes before `p`, where they can be memory of the heap below.
    bool holds(const std::byte* p) noexcept {
      if (!p || !is_aligned(p, kMinAlign)) return false;
      if constexpr (Locates<Below> && !facts_of<Below>().has_headers) {
        if (!this->below.holds(p - kHeader)) return false;
      } else if constexpr (Contiguous<Below>) {
        if (static_cast<std::size_t>(p - kHeader - this->below.origin()) >= Below::kReach) return false;
      }
      return header_of(const_cast<std::byte*>(p)).tag == tag_of(p);
    }
    Block block_of(std::byte* p) const noexcept {
      const Header h = checked(p);
      return {p, h.size - offset(h), static_cast<unsigned>(h.visible_class)};
    }
    Block measure(Block b) const noexcept { return block_of(b.ptr); }

    unsigned allocate_batch(Thread& t, unsigned c, std::byte** out, unsigned n) noexcept requires Batches<Below> {
      const unsigned got = this->below.allocate_batch(t, c, out, n);
      for (unsigned i = 0; i < got; ++i) out[i] = seal({out[i], Below::Classes::size_of(c), c}, 0, c).ptr;
      return got;
    }
    void release_batch(Thread& t, unsigned c, std::byte** in, unsigned n) noexcept requires Batches<Below> {
      for (unsigned i = 0; i < n; ++i) in[i] = unseal(in[i]).ptr;
      this->below.release_batch(t, c, in, n);
    }
    Block resize_in_place(Thread& t, Block b, std::size_t n) noexcept requires Resizes<Below> {
      const Header h = checked(b.ptr);
      if (n > SIZE_MAX - offset(h)) return {};
      const Block outer = this->below.resize_in_place(t, {b.ptr - offset(h), h.size, static_cast<unsigned>(h.size_class)}, n + offset(h));
      return outer ? seal(outer, offset(h) - kHeader, static_cast<unsigned>(h.visible_class)) : Block{};
    }
    Block resize_by_moving(Thread&, Block, std::size_t) = delete;  // the header would have to move with the pages

   private:
    struct Header {
      std::uint32_t tag;
      std::uint32_t skipped16;           ///< sixteenths of what was skipped for the alignment
      std::uint64_t size : 48;           ///< of the block below
      std::uint64_t size_class : 8;      ///< of the block below
      std::uint64_t visible_class : 8;   ///< of the block above: none when alignment has taken from its size
    };
    static_assert(sizeof(Header) == kHeader, "the header keeps the block at its natural alignment");

    static std::uint32_t tag_of(const std::byte* p) noexcept {
      return static_cast<std::uint32_t>(address_of(p) * 0x9E3779B97F4A7C15ull >> 32) | 1;
    }
    static Header header_of(std::byte* p) noexcept {
      Header h;
      std::memcpy(&h, p - kHeader, sizeof h);
      return h;
    }
    static std::size_t offset(const Header& h) noexcept { return std::size_t{h.skipped16} * 16 + kHeader; }
    static Header checked(std::byte* p) noexcept {
      const Header h = header_of(p);
      MORTISE_CHECK(h.tag == tag_of(p), h.tag == (tag_of(p) ^ kReleased) ? Fault::double_free : Fault::header_overwritten, Block(p, 0));
      return h;
    }
    static Block seal(Block outer, std::size_t skipped, unsigned visible_class) noexcept {
      std::byte* const p = outer.ptr + skipped + kHeader;
      const Header h{tag_of(p), static_cast<std::uint32_t>(skipped / 16), outer.size, outer.size_class, visible_class};
      std::memcpy(p - kHeader, &h, sizeof h);
      return {p, outer.size - skipped - kHeader, visible_class};
    }
    static Block unseal(std::byte* p) noexcept {
      Header h = checked(p);
      h.tag ^= kReleased;  // a second release is told from an overwritten header, while the memory is still ours
      std::memcpy(p - kHeader, &h, sizeof h);
      return {p - offset(h), h.size, static_cast<unsigned>(h.size_class)};
    }
    static constexpr std::uint32_t kReleased = 0x5a5a5a5a;
  };
};

}  // namespace mortise
