// What sources that keep to one window of addresses have in common: the lock, the origin, the tables beside the heap.
//
//   origin                          origin + reach
//   ┌───────────────────────────────┐   ┌──────────────────────────┐
//   │ blocks: the source's own      │   │ side tables              │   and bookkeeping memory, anywhere
//   └───────────────────────────────┘   └──────────────────────────┘
//
// Progress: blocking. Placement: the base of MmapHeap, BrkHeap and HugePageHeap.
#pragma once

#include "mortise/core/core.hpp"
#include "mortise/data/meta_arena.hpp"
#include "mortise/data/side_tables.hpp"
#include "mortise/os/pages.hpp"
#include "mortise/sync/fork_attempt.hpp"
#include "mortise/sync/futex_lock.hpp"

namespace mortise {

template <std::size_t kGranuleBytes, std::size_t kReachBytes> class WindowSource {
 public:
  struct Thread {};
  using Classes = NoClasses;
  static constexpr Progress kProgress = Progress::of(Guarantee::blocking);
  static constexpr std::size_t kGranule = kGranuleBytes;
  static constexpr std::size_t kReach = kReachBytes;  ///< address space only
  static constexpr std::size_t kSideReach = kReach / 2 > 1_MiB ? kReach / 2 : 1_MiB;  ///< for tables: four planes of marks, and an index

  /// Lowest address of any block, once started. Constant from then on.
  std::byte* origin() const noexcept { return origin_; }

  bool purge_pages(std::byte* at, std::size_t bytes) noexcept { return os::purge(at, bytes); }

  /// Bookkeeping memory: zeroed, never released.
  std::byte* meta(std::size_t bytes) noexcept {
    Held held(lock_);
    return meta_.take(bytes);
  }
  /// Address space for a table of at most `bytes` that grows with the heap, once started. Nothing is mapped: call `back_side`.
  std::byte* side(std::size_t bytes) noexcept {
    Held held(lock_);
    return origin_ ? side_.take(bytes, kGranule) : nullptr;
  }
  /// Makes a part of a side table usable: zeroed memory. False when the system refuses.
  bool back_side(std::byte* at, std::size_t bytes) noexcept {
    Held held(lock_);
    return side_.back(at, bytes);
  }

  void lock_all() noexcept { hold(lock_); }
  void unlock_all() noexcept { let_go(lock_); }
  void reset_after_fork() noexcept { lock_.reset(); }

 protected:
  /// Under the lock: the part of `tell` that all share. `used`: bytes in blocks that are out; `reached`: from the origin on.
  void tell_window(Usage& u, std::size_t used, std::size_t reached) const noexcept {
    u.mapped += used;
    u.meta += meta_.mapped_bytes() + side_.mapped_bytes();
    u.in_window(origin_, reached);
  }

  FutexLock lock_;
  std::byte* origin_ = nullptr;
  SideTables side_;
  MetaArena meta_;
};

}  // namespace mortise
