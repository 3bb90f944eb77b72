// How far a program swings: it takes a thousand blocks, then frees a thousand. What a cache learns from its misses.
#pragma once

#include <cstdint>

#include "mortise/sync/atomics.hpp"

namespace mortise {

/// How many blocks went one way (below zero: down) since a miss went the other way, and how many went before that. Any thread; where two
/// count at a time, a swing is off by the blocks of one.
class Swing {
 public:
  static constexpr unsigned kMost = 1'000'000;  ///< longer ones are not counted to their end

  /// Counts the blocks of a miss; the longer of this swing and the last.
  [[gnu::noinline]] unsigned count(std::int32_t moved) noexcept {
    std::int32_t now = now_.load(Order::relaxed), before = before_.load(Order::relaxed);
    if ((now < 0) != (moved < 0)) {
      before_.store(before = now, Order::relaxed);
      now = 0;
    }
    if (magnitude(now) < kMost) now += moved;
    now_.store(now, Order::relaxed);
    return magnitude(now) > magnitude(before) ? magnitude(now) : magnitude(before);
  }
  void forget() noexcept {
    now_.store(0, Order::relaxed);
    before_.store(0, Order::relaxed);
  }

 private:
  static unsigned magnitude(std::int32_t n) noexcept { return static_cast<unsigned>(n < 0 ? -n : n); }

  Atomic<std::int32_t> now_, before_;
};

}  // namespace mortise
