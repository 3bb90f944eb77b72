// Alignments beyond the natural one, without searching: a block whose size is a multiple of the alignment, in a slab that starts
// at a multiple of it, is aligned. So a request is enlarged to a class of such a size; what no class can serve goes to the spans.
//
// Progress: as below. Placement: above everything that must see the enlarged size; needs size classes and spans below.
#pragma once

#include "mortise/core/core.hpp"

namespace mortise {

struct Aligned {
  static constexpr const char* kName = "Aligned";
  static constexpr const char* kWhat = "alignment by choosing a class whose size is a multiple of it";
  static constexpr const char* kNeeds = "size classes below (Slab), whose slabs start at granule boundaries";
  template <class Out> static void describe(Out& out) { out.layer(kName, kWhat); }

  template <Classed Below> class Over : public Passthrough<Below> {
   public:
    using typename Passthrough<Below>::Thread;
    using Classes = typename Below::Classes;

    MORTISE_HOT Block allocate(Thread& t, Request r) noexcept {
      if (r.align > kMinAlign) [[unlikely]] return allocate_aligned(t, r);
      return this->below.allocate(t, r);
    }

    MORTISE_HOT Block allocate_hit(Thread& t, Request r) noexcept requires Hits<Below> {
      if (r.align > kMinAlign) [[unlikely]] return {};
      return this->below.allocate_hit(t, r);
    }
    MORTISE_HOT bool release_hit(Thread& t, Block b) noexcept requires Hits<Below> { return this->below.release_hit(t, b); }

   private:
    MORTISE_COLD Block allocate_aligned(Thread& t, Request r) noexcept {
      if (r.size <= Classes::kMaxBytes && r.align <= kAlignMax) {
        for (unsigned c = Classes::class_of(r.size); c <= Classes::kCount; ++c) {
          if (Classes::size_of(c) % r.align) continue;
          Request fitting = r;
          fitting.size = Classes::size_of(c);
          fitting.align = kMinAlign;
          Block b = this->below.allocate(t, fitting);
          return b;
        }
      }
      if (r.size <= Classes::kMaxBytes) r.size = Classes::kMaxBytes + 1;  // not a slab's any more
      return this->below.allocate(t, r);
    }
    static constexpr std::size_t kAlignMax = 16_KiB;  // slabs start at multiples of the smallest granule at least
  };
};

}  // namespace mortise
