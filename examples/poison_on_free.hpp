// A layer of your own for `mortise build`: what is released is overwritten, so that a stale pointer finds rubbish and not what was there.
//
//   mortise run --alloc examples/poisoned.toml -- ./prog       the composition names this header: headers = ["poison_on_free.hpp"]
//
// kName is its name in the composition, kNeeds what is said where it does not fit; parameters have the lines of the docstring.
#pragma once

#include <cstring>

#include "mortise/core/core.hpp"

/// `kByte` (0..255): what is written.
template <unsigned kByte = 0xdf> struct PoisonOnFree {
  static constexpr const char* kName = "PoisonOnFree";
  static constexpr const char* kWhat = "released blocks are overwritten with one byte";
  static constexpr const char* kNeeds = "a heap below that finds blocks by pointer";
  template <class Out> static void describe(Out& out) { out.layer(kName, kWhat).number("byte", kByte); }

  template <mortise::Locates Below> class Over : public mortise::Passthrough<Below> {
   public:
    using typename mortise::Passthrough<Below>::Thread;

    void release(Thread& t, mortise::Block b) noexcept {
      b = this->below.measure(b);  // free() knows a pointer only
      std::memset(b.ptr, kByte, b.size);
      this->below.release(t, b);
    }
  };
};
