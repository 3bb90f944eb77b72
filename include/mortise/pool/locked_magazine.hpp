// A magazine where there are no restartable sequences: guarded by a lock that nobody waits for. Who finds it held goes
// on to the shared part. One exchange a call, cheaper than a lock-free stack's, and whoever wants to empty it simply
// takes it.
//
// Progress: pop, push, take, give, try_open and count_now are wait-free. set_limit waits for a holder, which is inside a handful of
// instructions.
#pragma once

#include <sched.h>

#include <cstddef>
#include <cstdint>

#include "mortise/sync/atomics.hpp"

namespace mortise::pools {

/// All zero is a valid shut one.
struct alignas(128) LockedMagazine {
  static constexpr unsigned kSlots = 63;
  Atomic<std::uint32_t> held{0};
  Atomic<std::uint16_t> count{0};  ///< the holder's; statistics glance at it
  Shared<std::uint16_t> limit;  ///< 0 = shut
  Shared<std::byte*> slot[kSlots];

  std::byte* pop() noexcept {
    if (held.exchange(1, Order::acquire)) [[unlikely]]
      return nullptr;
    std::byte* block = nullptr;
    if (const unsigned n = count_now()) {
      block = slot[n - 1];
      set_count(n - 1);
    }
    held.store(0, Order::release);  // pairs with the acquire of the next holder
    return block;
  }
  bool push(std::byte* block) noexcept {
    if (held.exchange(1, Order::acquire)) [[unlikely]]
      return false;
    const unsigned n = count_now();
    const bool fits = n < limit;
    if (fits) {
      slot[n] = block;
      set_count(n + 1);
    }
    held.store(0, Order::release);
    return fits;
  }
  /// The newest blocks, up to `n`, the newest of them last; none when it is held.
  unsigned take(std::byte** out, unsigned n) noexcept {
    if (held.exchange(1, Order::acquire)) [[unlikely]]
      return 0;
    const unsigned now = count_now(), taken = n < now ? n : now, left = now - taken;
    for (unsigned i = 0; i < taken; ++i) out[i] = slot[left + i];
    set_count(left);
    held.store(0, Order::release);
    return taken;
  }
  /// Puts the last of the `n` blocks in first, as many as fit, so that the foremost is popped next; returns how many.
  unsigned give(std::byte* const* in, unsigned n) noexcept {
    if (held.exchange(1, Order::acquire)) [[unlikely]]
      return 0;
    unsigned left = n, now = count_now();
    while (left && now < limit) slot[now++] = in[--left];
    set_count(now);
    held.store(0, Order::release);
    return n - left;
  }
  /// From now on it holds `new_limit` at most. False when it is held: the holder may be this very thread, below a signal handler.
  bool try_open(unsigned new_limit) noexcept {
    if (held.exchange(1, Order::acquire)) return false;
    limit = static_cast<std::uint16_t>(new_limit);
    held.store(0, Order::release);
    return true;
  }
  /// The same, and gives everything in it when that is to be nothing.
  unsigned set_limit(unsigned new_limit, std::byte** out) noexcept {
    lock();
    const unsigned n = new_limit ? 0 : count_now();
    for (unsigned i = 0; i < n; ++i) out[i] = slot[n - 1 - i];
    if (!new_limit) set_count(0);
    limit = static_cast<std::uint16_t>(new_limit);
    held.store(0, Order::release);
    return n;
  }
  unsigned count_now() const noexcept { return count.load(Order::relaxed); }

 private:
  void set_count(unsigned n) noexcept { count.store(static_cast<std::uint16_t>(n), Order::relaxed); }
  void lock() noexcept {
    while (held.exchange(1, Order::acquire)) {
      while (held.load(Order::relaxed)) {
        cpu_relax();
        ::sched_yield();
      }
    }
  }
};
static_assert(sizeof(LockedMagazine) == 512);

}  // namespace mortise::pools
