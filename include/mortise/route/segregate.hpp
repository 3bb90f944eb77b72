// Two heaps by kind of request: what the route claims goes to a stack of its own, with a source of its own; the rest goes below.
//
//   allocate ─ claimed? ─► the stack inside      (no fallback: a full stack inside is a full heap for such requests)
//                 └ no ──► below
//   release  ─► whose address is it?
//
// Bypass differs: there both ways end in the same source. Here large blocks, or small ones, can live in memory of another kind: huge
// pages, an arena, memory from callbacks.
// Progress: the weaker of both. Source: segregators as in [Berger01].
// Placement: above any heap; the list inside is a whole stack and finds blocks by pointer.
#pragma once

#include "mortise/core/core.hpp"
#include "mortise/policy/route.hpp"
#include "mortise/route/two_heaps.hpp"

namespace mortise {

/// `Route`: the requests that it claims go to the stack inside.
/// `Inside`: the layers of that stack, down to its source.
template <RoutePolicy Route, class... Inside> struct Segregate {
  static constexpr const char* kName = "Segregate";
  static constexpr const char* kWhat = "requests that the route claims have a stack of their own inside";
  static constexpr const char* kNeeds = "a whole stack inside that finds blocks by pointer, with a source of its own; any heap below";
  template <class Out> static void describe(Out& out) {
    describe_route<Route>(out.layer(kName, kWhat));
    (Inside::describe(out), ...);
  }

  template <Heap Below> requires Locates<Stack<Layers<Inside...>>> && (Locates<Below> || !Classed<Below>)
  class Over : public TwoHeaps<Stack<Layers<Inside...>>, Below> {
   public:
    using typename TwoHeaps<Stack<Layers<Inside...>>, Below>::Thread;

    Block allocate(Thread& t, Request r) noexcept { return Route::claims(r) ? this->ask_beside(t, r) : this->ask_below(t, r); }
  };
};

}  // namespace mortise
