// First one heap, then another: an arena of fixed size first, and the system when it is full.
//
//   allocate ─► the stack inside ─ a block? ─► done
//                    └ none ─► below
//   release  ─► whose address is it?
//
// Progress: the weaker of both. Source: fallback allocators as in D's std.experimental.allocator.
// Placement: above any heap; the list inside is a whole stack with a source of its own, and finds blocks by pointer.
#pragma once

#include "mortise/core/core.hpp"
#include "mortise/route/two_heaps.hpp"

namespace mortise {

/// `First`: the layers of the stack that is asked first, down to its source.
template <class... First> struct Fallback {
  static constexpr const char* kName = "Fallback";
  static constexpr const char* kWhat = "asks the stack inside first, what is below when that has nothing";
  static constexpr const char* kNeeds = "a whole stack inside that finds blocks by pointer, with a source of its own; any heap below";
  template <class Out> static void describe(Out& out) {
    out.layer(kName, kWhat);
    (First::describe(out), ...);
  }

  template <Heap Below> requires Locates<Stack<Layers<First...>>> && (Locates<Below> || !Classed<Below>)
  class Over : public TwoHeaps<Stack<Layers<First...>>, Below> {
   public:
    using typename TwoHeaps<Stack<Layers<First...>>, Below>::Thread;

    Block allocate(Thread& t, Request r) noexcept {
      const Block b = this->ask_beside(t, r);
      return b ? b : this->ask_below(t, r);
    }
  };
};

}  // namespace mortise
