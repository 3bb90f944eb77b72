// Lets some requests skip the layers wrapped in it.
//
//   Bypass<LargerThan<256_KiB>, BatchedFree<>, Slab<>>     claimed: straight to what is below the wrapped layers
//
// On the way back, a block with a size class belongs to the wrapped layers, one without to those below.
// Progress: the weaker of both ways. Placement: anywhere its wrapped layers fit; they must know size classes.
#pragma once

#include "mortise/core/core.hpp"
#include "mortise/policy/route.hpp"

namespace mortise {

/// `Route`: the requests that it claims go past the wrapped layers.
/// `Wrapped`: the layers that serve all others; they stand on what is below.
template <RoutePolicy Route, class... Wrapped> struct Bypass {
  static constexpr const char* kName = "Bypass";
  static constexpr const char* kWhat = "requests that the route claims skip the layers inside";
  static constexpr const char* kNeeds = "wrapped layers that give size classes (such as Slab), and no guard or header among them "
                                        "that large blocks would pass on one way only (a GuardPages for slabs alone stands among them)";
  template <class Out> static void describe(Out& out) {
    describe_route<Route>(out.layer(kName, kWhat));
    (Wrapped::describe(out), ...);
  }

  template <Heap Below> using Wrapping = typename OnTop<Layers<Wrapped...>, Below>::type;

  template <Heap Below> requires Classed<Wrapping<Below>> && (facts_of<Below>().spans != Spans::slabs) &&
                                 (facts_of<Wrapping<Below>>().watchers == facts_of<Below>().watchers)
  class Over : public Passthrough<Wrapping<Below>> {
    using Inner = Wrapping<Below>;

   public:
    using typename Passthrough<Inner>::Thread;
    static constexpr Progress kProgress = weakest(Inner::kProgress, Below::kProgress);
    static constexpr std::size_t kGrowingBytes = kGrowingBytesOf<Route>;
    static constexpr bool kTakesUnsized = kTakesUnsizedBlocks<Inner> && kTakesUnsizedBlocks<Below>;

    MORTISE_HOT Block allocate(Thread& t, Request r) noexcept {
      if (Route::claims(r)) [[unlikely]] return skipped().allocate(thread_of_skipped(t), r);
      return this->below.allocate(t, r);
    }
    MORTISE_HOT void release(Thread& t, Block b) noexcept {
      if (b.size_class == kNoClass) [[unlikely]] return skipped().release(thread_of_skipped(t), b);
      this->below.release(t, b);
    }
    /// A block stays on its side: in place while its side can keep it and the route still claims one that grows to its size.
    Block resize_in_place(Thread& t, Block b, std::size_t n) noexcept requires Resizes<Below> {
      if (b.size_class != kNoClass || !Route::claims({.size = n, .grows = true})) return {};
      return skipped().resize_in_place(thread_of_skipped(t), b, n);
    }
    Block resize_by_moving(Thread& t, Block b, std::size_t n) noexcept requires Moves<Below> && Moves<Inner> {
      if (b.size_class != kNoClass || !Route::claims({.size = n, .grows = true})) return {};
      return skipped().resize_by_moving(thread_of_skipped(t), b, n);
    }

   private:
    Below& skipped() noexcept { return descend(this->below); }
    template <class H> static auto& descend(H& h) noexcept {
      if constexpr (std::is_same_v<H, Below>) return h;
      else return descend(h.below);
    }
    template <class T> static auto& thread_of_skipped(T& t) noexcept {
      if constexpr (std::is_same_v<T, typename Below::Thread>) return t;
      else return thread_of_skipped(t.below);
    }
  };
};

}  // namespace mortise
