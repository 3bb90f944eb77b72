// Memory that threads see alike even when each lives in an address space of its own: one slot of addresses a sub-heap.
//
//   origin                 + kSlotBytes            + 2 kSlotBytes
//   ┌────────┬─────────────┬──────────┬────────────┬───────────
//   │ mapped │ not yet     │ mapped   │ not yet    │ ...           a pointer's slot is its place divided by kSlotBytes
//   └────────┴─────────────┴──────────┴────────────┴───────────
//
// 1. Each request is mapped at the end of its slot, at an exact address.
// 2. Under isolated threads the runtime turns every gigabyte of a slot into one file in memory, mapped by all threads: slots
//    do not meet in one file's locks.
// 3. Without them it is private memory like any other.
// Progress: as the kernel's mmap (blocking). Placement: a source; stands at the bottom, below SubHeaps.
#pragma once

#include "mortise/core/core.hpp"
#include "mortise/data/meta_arena.hpp"
#include "mortise/os/entropy.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/os/pages.hpp"
#include "mortise/sync/fork_attempt.hpp"
#include "mortise/sync/futex_lock.hpp"

namespace mortise {

/// A source with a range of addresses for each sub-heap, so that a pointer tells whose it is.
template <class S>
concept Slotted = Heap<S> && requires(S& s, typename S::Thread& t, Request r, unsigned slot) {
  { S::kSlotCount } -> std::convertible_to<unsigned>;
  { S::kSlotBytes } -> std::convertible_to<std::size_t>;
  { s.slot_origin(slot) } noexcept -> std::same_as<std::byte*>;
  { s.allocate_in(t, slot, r) } noexcept -> std::same_as<Block>;
};

/// Every size is rounded up to `kGranule`, and every block is aligned to it. Thread-safe; one lock a slot, held over the
/// kernel's work. Errors: an empty block when the kernel refuses or the slot is full.
/// `kSlots` (1..64): sub-heaps.
/// `kGranuleBytes` (4 KiB..2 MiB, power of two): sizes are multiples of it. Pages of the machine are not larger.
template <unsigned kSlots = 64, std::size_t kGranuleBytes = 64_KiB> class SharedHeap {
 public:
  struct Thread {};
  using Classes = NoClasses;
  static constexpr const char* kName = "SharedHeap";
  static constexpr const char* kWhat = "pages that isolated threads share, a slot of addresses for each sub-heap";
  static constexpr Progress kProgress = Progress::of(Guarantee::blocking);
  static constexpr std::size_t kGranule = kGranuleBytes;
  static constexpr unsigned kSlotCount = kSlots;
  static constexpr std::size_t kSlotBytes = 64_GiB;
  static constexpr std::size_t kReach = kSlotCount * kSlotBytes;

  template <class Out> static void describe(Out& out) {
    out.layer(kName, kWhat).number("slots", kSlotCount).number("granule_bytes", kGranule);
  }

  bool start(const os::Facts&) noexcept {
    Held held(lock_);
    return start_locked();
  }

  /// Lowest address of any block, once started. Constant from then on.
  std::byte* origin() const noexcept { return origin_; }
  std::byte* slot_origin(unsigned slot) noexcept { return origin_ + slot * kSlotBytes; }

  Block allocate(Thread& t, Request r) noexcept { return allocate_in(t, 0, r); }

  Block allocate_in(Thread&, unsigned slot, Request r) noexcept {
    Held held(slots_[slot].lock);
    if (!origin_ || r.align > kGranule) return {};
    const std::size_t bytes = round_up(r.size ? r.size : 1, kGranule);
    Slot& s = slots_[slot];
    while (bytes <= kSlotBytes - s.used) {
      std::byte* const at = slot_origin(slot) + s.used;
      const os::MapAt result = os::map_at(at, bytes);
      if (result == os::MapAt::refused) return {};
      s.used += result == os::MapAt::done ? bytes : kGranule;   // taken by something else: look behind it
      if (result != os::MapAt::done) continue;
      s.mapped += bytes;
      return {at, bytes};
    }
    return {};
  }

  /// Unmaps it. Its address is given out again only when it was the last of its slot.
  void release(Thread&, Block b) noexcept {
    os::unmap(b.ptr, b.size);
    const auto slot = static_cast<unsigned>(static_cast<std::size_t>(b.ptr - origin_) / kSlotBytes);
    Held held(slots_[slot].lock);
    slots_[slot].mapped -= b.size;
    if (b.end() == slot_origin(slot) + slots_[slot].used) slots_[slot].used -= b.size;
  }

  bool purge_pages(std::byte* at, std::size_t bytes) noexcept { return os::purge(at, bytes); }

  /// Bookkeeping memory: zeroed, never released.
  std::byte* meta(std::size_t bytes) noexcept {
    Held held(lock_);
    return meta_.take(bytes);
  }

  void lock_all() noexcept {
    hold(lock_);
    for (Slot& s : slots_) hold(s.lock);
  }
  void unlock_all() noexcept {
    for (unsigned i = kSlotCount; i-- > 0;) let_go(slots_[i].lock);
    let_go(lock_);
  }
  void reset_after_fork() noexcept {
    for (Slot& s : slots_) s.lock.reset();
    lock_.reset();
  }

  void tell(Usage& u) noexcept {
    for (const Slot& s : slots_) u.mapped += s.mapped;
    u.in_window(origin_, kReach);
    u.meta += meta_.mapped_bytes();
  }

 private:
  struct alignas(64) Slot {
    FutexLock lock;
    std::size_t used = 0;     ///< addresses given out, from the slot's start
    std::size_t mapped = 0;
  };

  // Where MmapHeap's window lies, too, but a random multiple of 4 GiB: a slot's gigabytes are files of their own.
  bool start_locked() noexcept {
    if (origin_) return true;
    constexpr std::uintptr_t kLowest = 16_TiB;
    constexpr std::size_t kPlaces = 12'000;
    for (unsigned tries = 0; tries < 16; ++tries) {
      auto* const at = reinterpret_cast<std::byte*>(kLowest + (os::entropy() % kPlaces) * 4_GiB);
      const os::MapAt result = os::map_at(at, kGranule);
      if (result == os::MapAt::taken) continue;
      if (result == os::MapAt::done) os::unmap(at, kGranule);
      origin_ = at;
      return true;
    }
    return false;
  }

  FutexLock lock_;
  std::byte* origin_ = nullptr;
  Slot slots_[kSlotCount]{};
  MetaArena meta_;
};

}  // namespace mortise
