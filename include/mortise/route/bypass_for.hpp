// Lets some threads skip the layers wrapped in it: a thread that must be fast and one that must be steady can share a heap.
//
//   BypassFor<RealTimeThreads, ThreadCache<>>     threads that the condition names: straight to what is below the wrapped layers
//
// The condition is asked once a thread, when it attaches. Wrapped are caches: they hand on blocks of the backbone below, so a block may
// go up one way and come back the other.
// Progress: the weaker of both ways. Placement: around caches; needs size classes below.
#pragma once

#include "mortise/core/core.hpp"
#include "mortise/policy/route.hpp"

namespace mortise {

/// `Route`: the threads that it claims go past the wrapped layers.
/// `Wrapped`: caches; they stand on what is below.
template <ThreadRoute Route, class... Wrapped> struct BypassFor {
  static constexpr const char* kName = "BypassFor";
  static constexpr const char* kWhat = "threads that the route claims skip the caches inside";
  static constexpr const char* kNeeds = "size classes below (Slab), and inside caches that hand on its blocks, no guards of them";
  template <class Out> static void describe(Out& out) {
    out.layer(kName, kWhat).policy("Route", Route::kName);
    (Wrapped::describe(out), ...);
  }
  template <Heap Below> using Inner = typename OnTop<Layers<Wrapped...>, Below>::type;

  template <Classed Below> requires std::is_same_v<typename Inner<Below>::Classes, typename Below::Classes> &&
                                   (facts_of<Inner<Below>>().watchers == facts_of<Below>().watchers)
  class Over : public Passthrough<Inner<Below>> {
   public:
    struct Thread {
      bool skips = false;
      [[no_unique_address]] typename Inner<Below>::Thread below{};
    };
    static constexpr Progress kProgress = weakest(Inner<Below>::kProgress, Below::kProgress);
    static constexpr bool kTakesUnsized = kTakesUnsizedBlocks<Inner<Below>> && kTakesUnsizedBlocks<Below>;

    Block allocate(Thread& t, Request r) noexcept {
      return t.skips ? skipped(this->below).allocate(of_skipped(t.below), r) : this->below.allocate(t.below, r);
    }
    void release(Thread& t, Block b) noexcept {
      t.skips ? skipped(this->below).release(of_skipped(t.below), b) : this->below.release(t.below, b);
    }
    MORTISE_HOT Block allocate_hit(Thread& t, Request r) noexcept requires Hits<Inner<Below>> {
      return t.skips ? Block{} : this->below.allocate_hit(t.below, r);
    }
    MORTISE_HOT bool release_hit(Thread& t, Block b) noexcept requires Hits<Inner<Below>> {
      return !t.skips && this->below.release_hit(t.below, b);
    }
    unsigned allocate_batch(Thread& t, unsigned c, std::byte** out, unsigned n) noexcept requires Batches<Inner<Below>> {
      return this->below.allocate_batch(t.below, c, out, n);
    }
    void release_batch(Thread& t, unsigned c, std::byte** in, unsigned n) noexcept requires Batches<Inner<Below>> {
      this->below.release_batch(t.below, c, in, n);
    }
    Block resize_in_place(Thread& t, Block b, std::size_t n) noexcept requires Resizes<Inner<Below>> {
      return this->below.resize_in_place(t.below, b, n);
    }
    Block resize_by_moving(Thread& t, Block b, std::size_t n) noexcept requires Moves<Inner<Below>> {
      return this->below.resize_by_moving(t.below, b, n);
    }
    std::size_t trim(Thread& t) noexcept { return trim_below(this->below, t.below); }

    void attach(Thread& t) noexcept {
      t.skips = Route::claims_thread();
      attach_below(this->below, t.below);
    }
    void detach(Thread& t) noexcept {
      detach_below(this->below, t.below);
      t.skips = false;
    }
    /// Says it for a thread, whatever the route says; by that thread.
    void set_skips(Thread& t, bool skips) noexcept { t.skips = skips; }

   private:
    template <unsigned kDepth = sizeof...(Wrapped), class H> static auto& skipped(H& h) noexcept {
      if constexpr (kDepth == 0) return h;
      else return skipped<kDepth - 1>(h.below);
    }
    template <class T> static auto& of_skipped(T& t) noexcept {
      if constexpr (std::is_same_v<T, typename Below::Thread>) return t;
      else return of_skipped(t.below);
    }
  };
};

}  // namespace mortise
