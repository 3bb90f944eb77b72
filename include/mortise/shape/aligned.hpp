// Alignments beyond the natural one, without searching: a block whose size is a multiple of the alignment, in a slab that starts
// at a multiple of it, is aligned. So a request is enlarged to a multiple of its alignment; beyond 16 KiB the spans serve it.
//
// Progress: as below. Placement: above everything that must see the enlarged size; needs size classes and spans below.
#pragma once

#include "mortise/core/core.hpp"
#include "mortise/policy/size_classes.hpp"

namespace mortise {

struct Aligned {
  static constexpr const char* kName = "Aligned";
  static constexpr const char* kWhat = "alignment by choosing a class whose size is a multiple of it";
  static constexpr const char* kNeeds = "size classes below (Slab), and no guard or header between that takes a part of each block: "
                                        "those stand above";
  template <class Out> static void describe(Out& out) { out.layer(kName, kWhat); }

  template <Classed Below> requires (!kIsShrunk<Below>) class Over : public Passthrough<Below> {
   public:
    using typename Passthrough<Below>::Thread;
    using Classes = typename Below::Classes;
    static constexpr std::size_t kNearBytes = kNearBytesOf<Below>;

    MORTISE_HOT Block allocate(Thread& t, Request r) noexcept { return this->below.allocate(t, enlarged(r)); }

    MORTISE_HOT Block allocate_hit(Thread& t, Request r) noexcept requires Hits<Below> {
      return this->below.allocate_hit(t, enlarged(r));
    }
    MORTISE_HOT Block allocate_hit_near(Thread& t, Request r) noexcept requires HitsNear<Below> {
      return this->below.allocate_hit_near(t, r);
    }
    MORTISE_HOT bool release_hit(Thread& t, Block b) noexcept requires Hits<Below> { return this->below.release_hit(t, b); }
    unsigned release_hits(Thread& t, std::byte* const* in, const std::uint8_t* classes, unsigned n) noexcept
        requires requires(Below& h) { h.release_hits(t, in, classes, n); } {
      return this->below.release_hits(t, in, classes, n);
    }

   private:
    /// A size that is a multiple of the alignment: its class's size is one as well. Beyond kAlignMax: too large for the slabs.
    MORTISE_HOT static Request enlarged(Request r) noexcept {
      if (r.align <= kMinAlign) return r;
      r.size = round_up(r.size ? r.size : 1, r.align);
      if (r.align <= kAlignMax) {
        if (r.size <= Classes::kMaxBytes) r.align = kMinAlign;
      } else if (r.size <= Classes::kMaxBytes) {
        r.size = Classes::kMaxBytes + 1;
      }
      return r;
    }
    /// Slabs start at multiples of the granule; without one to ask, of a page.
    static constexpr std::size_t align_max() noexcept {
      if constexpr (Indexed<Below>) return IndexOf<Below>::kGranule < 16_KiB ? IndexOf<Below>::kGranule : 16_KiB;
      else return 4_KiB;
    }
    static constexpr std::size_t kAlignMax = align_max();
  };
};

}  // namespace mortise
