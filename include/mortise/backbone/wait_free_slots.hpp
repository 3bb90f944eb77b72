// The table of wfslab's slots. A slot is held by whoever changed its state to busy: a thread for as long as it lives, or a call of a
// thread without one, or whoever visits it meanwhile.
//
//   states   ┌ unused │ idle │ busy │ ... ┐   claim, visit: exchange; leave: store
//   slots    ┌ null   │ ●    │ ●    │ ... ┐   made at their first use, never taken back
//
// Progress: wait-free, but a slot's first use asks for memory, which may wait. Placement: in WaitFreeSlab.
#pragma once

#include <new>

#include "mortise/core/core.hpp"
#include "mortise/sync/atomics.hpp"

namespace mortise {

/// `kSlots` slots; all zero is a valid table of unused ones. Any thread.
template <class Slot, unsigned kSlots> class WaitFreeSlots {
 public:
  /// How many slots have ever been used, from number 0 on: a look that may be old.
  unsigned used() const noexcept { return used_.load(Order::relaxed); }
  /// Slot number `n`, or null before its first use.
  Slot* at(unsigned n) const noexcept { return slots_[n].load(Order::acquire); }

  /// A slot of [first, end) that is the caller's until it leaves it; null when all are held, or there is no memory for a new one, which
  /// `meta(bytes)` gives. One pass over the table.
  template <class Meta> Slot* claim(unsigned first, unsigned end, Meta meta) noexcept {
    for (unsigned i = first; i < end; ++i) {
      const std::uint8_t seen = states_[i].load(Order::relaxed);
      if (seen == kBusy || states_[i].exchange(kBusy, Order::acquire) == kBusy) continue;  // pairs with leave()
      Slot* slot = slots_[i].load(Order::relaxed);
      return slot ? slot : open(i, meta);
    }
    return nullptr;
  }
  /// Slot number `i` for a while, if it is idle; otherwise null.
  Slot* visit(unsigned i) noexcept {
    if (states_[i].load(Order::relaxed) != kIdle) return nullptr;
    return states_[i].exchange(kBusy, Order::acquire) == kIdle ? slots_[i].load(Order::relaxed) : nullptr;  // idle is never unused again
  }
  void leave(Slot& slot) noexcept { states_[slot.number].store(kIdle, Order::release); }

 private:
  enum : std::uint8_t { kUnused, kIdle, kBusy };

  template <class Meta> MORTISE_COLD Slot* open(unsigned i, Meta meta) noexcept {
    std::byte* const memory = meta(sizeof(Slot) + alignof(Slot));
    if (!memory) {
      states_[i].store(kUnused, Order::release);
      return nullptr;
    }
    Slot* const slot = ::new (reinterpret_cast<void*>(round_up(address_of(memory), alignof(Slot)))) Slot;
    slot->open(i);
    slots_[i].store(slot, Order::release);  // pairs with at()
    for (unsigned used = used_.load(Order::relaxed); used <= i;)
      if (used_.compare_exchange_weak(used, i + 1, Order::relaxed)) break;
    return slot;
  }

  Atomic<std::uint8_t> states_[kSlots];
  Atomic<Slot*> slots_[kSlots];
  Atomic<unsigned> used_{0};
};

}  // namespace mortise
