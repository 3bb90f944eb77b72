// A magazine where there are no restartable sequences: guarded by a lock that nobody waits for. Who finds it held goes
// on to the shared part. One exchange a call, cheaper than a lock-free stack's, and whoever wants to empty it simply
// takes it.
//
// Progress: pop, push, take and give are wait-free. set_limit (shutting and opening) and count_now wait for a holder, which
// is inside a handful of instructions.
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
  Shared<std::uint16_t> count;
  Shared<std::uint16_t> limit;  ///< 0 = shut
  Shared<std::byte*> slot[kSlots];

  std::byte* pop() noexcept {
    if (held.exchange(1, Order::acquire)) [[unlikely]]
      return nullptr;
    std::byte* block = nullptr;
    if (const std::uint16_t n = count) {
      block = slot[n - 1];
      count = static_cast<std::uint16_t>(n - 1);
    }
    held.store(0, Order::release);  // pairs with the acquire of the next holder
    return block;
  }
  bool push(std::byte* block) noexcept {
    if (held.exchange(1, Order::acquire)) [[unlikely]]
      return false;
    const std::uint16_t n = count;
    const bool fits = n < limit;
    if (fits) {
      slot[n] = block;
      count = static_cast<std::uint16_t>(n + 1);
    }
    held.store(0, Order::release);
    return fits;
  }
  /// The newest blocks, up to `n`, the newest of them last; none when it is held.
  unsigned take(std::byte** out, unsigned n) noexcept {
    if (held.exchange(1, Order::acquire)) [[unlikely]]
      return 0;
    const unsigned taken = n < count ? n : static_cast<unsigned>(count.get());
    const unsigned left = count - taken;
    for (unsigned i = 0; i < taken; ++i) out[i] = slot[left + i];
    count = static_cast<std::uint16_t>(left);
    held.store(0, Order::release);
    return taken;
  }
  /// Puts the last of the `n` blocks in first, as many as fit, so that the foremost is popped next; returns how many.
  unsigned give(std::byte* const* in, unsigned n) noexcept {
    if (held.exchange(1, Order::acquire)) [[unlikely]]
      return 0;
    unsigned left = n;
    std::uint16_t now = count;
    while (left && now < limit) slot[now++] = in[--left];
    count = now;
    held.store(0, Order::release);
    return n - left;
  }
  /// Everything in it; from now on it holds `new_limit` at most.
  unsigned set_limit(unsigned new_limit, std::byte** out) noexcept {
    lock();
    const unsigned n = new_limit ? 0 : static_cast<unsigned>(count.get());
    for (unsigned i = 0; i < n; ++i) out[i] = slot[n - 1 - i];
    if (!new_limit) count = 0;
    limit = static_cast<std::uint16_t>(new_limit);
    held.store(0, Order::release);
    return n;
  }
  unsigned count_now() noexcept {
    lock();
    const unsigned n = count;
    held.store(0, Order::release);
    return n;
  }

 private:
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
