// A limit on what a heap takes from its source: a soft and a hard end of memory that is not the machine's.
//
//   allocate ── taken + size within the limit? ── below ── counted
//                     │ no: an empty block, as if the source were exhausted
//
// Progress: as below; counting is one atomic addition. Placement: directly above a source, so that it counts what the system
// gives; a stack above it reacts as to a machine without memory. Above a cache it counts blocks instead.
#pragma once

#include "mortise/core/core.hpp"
#include "mortise/shape/page_index.hpp"
#include "mortise/sync/atomics.hpp"

namespace mortise {

/// `kBytes` (64 KiB..16 TiB): the limit until `set_limit_bytes` changes it; blocks that are out already stay out.
template <std::size_t kBytes> struct LimitedTo {
  static constexpr const char* kName = "LimitedTo";
  static constexpr const char* kWhat = "refuses what would go beyond a number of bytes";
  static constexpr const char* kNeeds = "any heap below";
  template <class Out> static void describe(Out& out) { out.layer(kName, kWhat).number("limit_bytes", kBytes); }

  /// Forwards what PageIndex wants of a source, where the source has it.
  template <Heap Below> class Facts : public Passthrough<Below> {};
  template <Contiguous Below> class Facts<Below> : public Passthrough<Below> {
   public:
    static constexpr std::size_t kGranule = Below::kGranule;
    static constexpr std::size_t kReach = Below::kReach;
    std::byte* origin() noexcept { return this->below.origin(); }
    std::byte* side(std::size_t n) noexcept { return this->below.side(n); }
    bool back_side(std::byte* at, std::size_t n) noexcept { return this->below.back_side(at, n); }
  };

  template <Heap Below> class Over : public Facts<Below> {
   public:
    using typename Passthrough<Below>::Thread;

    Block allocate(Thread& t, Request r) noexcept {
      if (!take(r.size)) return {};
      const Block b = this->below.allocate(t, r);
      // The source rounds up: what it gave beyond the wish is counted too, even where that passes the limit by a granule.
      taken_.fetch_add((b ? b.size : 0) - r.size, Order::relaxed);
      return b;
    }
    void release(Thread& t, Block b) noexcept {
      taken_.fetch_sub(b.size, Order::relaxed);
      this->below.release(t, b);
    }
    Block resize_in_place(Thread& t, Block b, std::size_t n) noexcept requires Resizes<Below> {
      if (n > b.size && !take(n - b.size)) return {};
      const std::size_t taken = n > b.size ? n - b.size : 0;
      const Block resized = this->below.resize_in_place(t, b, n);
      taken_.fetch_add((resized ? resized.size - b.size : 0) - taken, Order::relaxed);
      return resized;
    }
    Block resize_by_moving(Thread&, Block, std::size_t) = delete;  // the caller copies, and the limit sees both blocks
    unsigned allocate_batch(Thread&, unsigned, std::byte**, unsigned) = delete;  // would go past the count
    void release_batch(Thread&, unsigned, std::byte**, unsigned) = delete;

    /// Bytes in blocks that are out. Exact when nobody is inside.
    std::size_t taken_bytes() const noexcept { return taken_.load(Order::relaxed); }
    std::size_t limit_bytes() const noexcept { return limit_.load(Order::relaxed); }
    void set_limit_bytes(std::size_t bytes) noexcept { limit_.store(bytes, Order::relaxed); }

   private:
    bool take(std::size_t bytes) noexcept {
      std::size_t taken = taken_.load(Order::relaxed);
      do {
        const std::size_t limit = limit_.load(Order::relaxed);
        if (taken > limit || bytes > limit - taken) return false;
      } while (!taken_.compare_exchange_weak(taken, taken + bytes, Order::relaxed));
      return true;
    }

    Atomic<std::size_t> taken_{0};
    Atomic<std::size_t> limit_{kBytes};
  };
};

}  // namespace mortise
