// The Probe slot: what is counted when a block goes by?
//
// A probe is told of every block given and taken back, by any thread. It never allocates and never waits.
#pragma once

#include <concepts>
#include <cstdint>

#include "mortise/core/bits.hpp"
#include "mortise/core/block.hpp"
#include "mortise/core/request.hpp"
#include "mortise/sync/atomics.hpp"

namespace mortise {

/// `allocated(request, block)`: the block is empty when memory ran out. `released(block)`.
template <class P>
concept ProbePolicy = requires(P& p, Request r, Block b) {
  { p.allocated(r, b) } noexcept;
  { p.released(b) } noexcept;
  { P::kName } -> std::convertible_to<const char*>;
};

namespace probe {

/// How often, and how often in vain. One atomic addition a call.
struct Calls {
  static constexpr const char* kName = "Calls";
  Atomic<std::uint64_t> allocations{0}, failures{0}, releases{0};
  void allocated(Request, Block b) noexcept { (b ? allocations : failures).fetch_add(1, Order::relaxed); }
  void released(Block) noexcept { releases.fetch_add(1, Order::relaxed); }
};

/// Bytes in live blocks, now and at most. Asks for blocks whose size is known at release.
struct Bytes {
  static constexpr const char* kName = "Bytes";
  Atomic<std::size_t> live{0}, peak{0};
  void allocated(Request, Block b) noexcept {
    const std::size_t now = live.fetch_add(b.size, Order::relaxed) + b.size;
    std::size_t most = peak.load(Order::relaxed);
    while (most < now && !peak.compare_exchange_weak(most, now, Order::relaxed)) {
    }
  }
  void released(Block b) noexcept { live.fetch_sub(b.size, Order::relaxed); }
};

/// Requests by size: how many between each power of two and the next.
struct Sizes {
  static constexpr const char* kName = "Sizes";
  Atomic<std::uint64_t> count[64];
  void allocated(Request r, Block) noexcept { count[r.size ? log2_floor(r.size) : 0].fetch_add(1, Order::relaxed); }
  void released(Block) noexcept {}
};

}  // namespace probe
}  // namespace mortise
