// Counts what goes by. Which numbers is the Probe slot's answer; where in the stack it stands is part of the question: on top it
// counts what the program does, below a cache what the cache misses.
//
// Progress: as below; a probe adds atomic additions, which threads share. For instruments and tests, not for the allocators that
// ship. Placement: anywhere.
#pragma once

#include "mortise/core/core.hpp"
#include "mortise/policy/probe.hpp"

namespace mortise {

/// `Probe`: what is counted.
template <ProbePolicy Probe = probe::Calls> struct Counters {
  static constexpr const char* kName = "Counters";
  static constexpr const char* kWhat = "counts the blocks that go by";
  static constexpr const char* kNeeds = "any heap below";
  template <class Out> static void describe(Out& out) { out.layer(kName, kWhat).policy("Probe", Probe::kName); }

  template <Heap Below> class Over : public Passthrough<Below> {
   public:
    using typename Passthrough<Below>::Thread;

    Block allocate(Thread& t, Request r) noexcept {
      const Block b = this->below.allocate(t, r);
      probe_.allocated(r, b);
      return b;
    }
    void release(Thread& t, Block b) noexcept {
      probe_.released(sized(b));
      this->below.release(t, b);
    }
    MORTISE_HOT Block allocate_hit(Thread& t, Request r) noexcept requires Hits<Below> {
      const Block b = this->below.allocate_hit(t, r);
      if (b) probe_.allocated(r, b);
      return b;
    }
    MORTISE_HOT bool release_hit(Thread& t, Block b) noexcept requires Hits<Below> {
      const Block known = sized(b);  // before it goes: afterwards it may be anybody's
      if (!this->below.release_hit(t, b)) return false;
      probe_.released(known);
      return true;
    }
    unsigned allocate_batch(Thread& t, unsigned c, std::byte** out, unsigned n) noexcept requires Batches<Below> {
      const unsigned got = this->below.allocate_batch(t, c, out, n);
      for (unsigned i = 0; i < got; ++i) probe_.allocated({.size = Below::Classes::size_of(c)}, {out[i], Below::Classes::size_of(c), c});
      return got;
    }
    void release_batch(Thread& t, unsigned c, std::byte** in, unsigned n) noexcept requires Batches<Below> {
      for (unsigned i = 0; i < n; ++i) probe_.released({in[i], Below::Classes::size_of(c), c});
      this->below.release_batch(t, c, in, n);
    }
    /// A block that changes its size counts as released and allocated.
    Block resize_in_place(Thread& t, Block b, std::size_t n) noexcept requires Resizes<Below> {
      return resized(n, sized(b), this->below.resize_in_place(t, b, n));
    }
    Block resize_by_moving(Thread& t, Block b, std::size_t n) noexcept requires Moves<Below> {
      return resized(n, sized(b), this->below.resize_by_moving(t, b, n));
    }

    Probe& probe() noexcept { return probe_; }

   private:
    Block sized(Block b) noexcept {
      if constexpr (Locates<Below>) return b.is_unsized() ? this->below.measure(b) : b;
      return b;
    }
    Block resized(std::size_t n, Block before, Block after) noexcept {
      if (!after) return after;
      probe_.released(before);
      probe_.allocated({.size = n}, after);
      return after;
    }
    Probe probe_;
  };
};

}  // namespace mortise
