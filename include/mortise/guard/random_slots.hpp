// The order in which blocks of a class are given out is random within a batch: who wants two blocks side by side cannot rely on it.
//
// A batch is shuffled on its way up to the cache; hits cost nothing. Progress: as below.
// Source: slot randomisation as in [Novark10] DieHarder and [hardened_malloc], a batch at a time.
// Placement: between a cache and the backbone, where batches pass.
#pragma once

#include <utility>

#include "mortise/core/core.hpp"
#include "mortise/os/entropy.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/sync/atomics.hpp"

namespace mortise {

struct RandomSlots {
  static constexpr const char* kName = "RandomSlots";
  static constexpr const char* kWhat = "blocks of a batch come up in random order";
  static constexpr const char* kNeeds = "a backbone below that serves batches (Slab)";
  template <class Out> static void describe(Out& out) { out.layer(kName, kWhat); }

  template <Batches Below> class Over : public Passthrough<Below> {
   public:
    using typename Passthrough<Below>::Thread;

    bool start(const os::Facts& facts) noexcept {
      if (!state_.load(Order::relaxed)) state_.store(os::entropy() | 1, Order::relaxed);
      return start_below(this->below, facts);
    }
    unsigned allocate_batch(Thread& t, unsigned c, std::byte** out, unsigned n) noexcept {
      const unsigned got = this->below.allocate_batch(t, c, out, n);
      std::uint64_t random = state_.load(Order::relaxed);  // two threads may shuffle alike: harmless
      for (unsigned left = got; left > 1; --left) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        std::swap(out[left - 1], out[(random >> 32) * left >> 32]);
      }
      state_.store(random, Order::relaxed);
      return got;
    }

   private:
    Atomic<std::uint64_t> state_{0};
  };
};

}  // namespace mortise
