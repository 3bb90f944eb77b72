// Memory from an array inside the heap itself: for systems without an operating system, and for bounded memory within one.
//
//   ┌─────────────────────────────┬───────────────────────────┐
//   │ blocks, from the low end ─▶ │ ◀─ tables, from the high  │   kBytes, all zero at first, part of the object
//   └─────────────────────────────┴───────────────────────────┘
//
// Tables and bookkeeping (side, meta) are carved from the high end when the stack starts and never given back; blocks take what
// is left, first fit. Released memory is cleared, so that every block reads as zero. No system call, no libc.
//
// Progress: as its lock. Placement: a source; stands at the bottom. Pages cannot be purged or moved.
#pragma once

#include "mortise/core/core.hpp"
#include "mortise/data/hole_list.hpp"
#include "mortise/sync/fork_attempt.hpp"
#include "mortise/sync/spin_lock.hpp"

namespace mortise {

/// Sizes are rounded up to the granule, and every block is aligned to it; the object is too.
/// Errors: an empty block, or null, when the array is used up. O(holes).
/// `kBytes` (4 KiB..1 GiB): the array: blocks, tables and bookkeeping. A multiple of the granule.
/// `kGranuleBytes` (64..2 MiB, power of two): sizes are multiples of it.
/// `Sync`: the lock of the array.
template <std::size_t kBytes, std::size_t kGranuleBytes = 4_KiB, Lock Sync = SpinLock> class StaticHeap {
  static_assert(is_power_of_two(kGranuleBytes) && kBytes % kGranuleBytes == 0, "the array is a number of whole granules");

 public:
  struct Thread {};
  using Classes = NoClasses;
  static constexpr const char* kName = "StaticHeap";
  static constexpr const char* kWhat = "an array of fixed size inside the heap";
  static constexpr Progress kProgress = Progress::of(Sync::kGuarantee);
  static constexpr std::size_t kGranule = kGranuleBytes;
  static constexpr std::size_t kReach = kBytes;

  template <class Out> static void describe(Out& out) {
    out.layer(kName, kWhat).number("bytes", kBytes).number("granule_bytes", kGranule).policy("Sync", Sync::kName);
  }

  std::byte* origin() noexcept { return array_; }

  Block allocate(Thread&, Request r) noexcept {
    if (r.size > kBytes || r.align > kGranule) return {};
    const std::size_t bytes = round_up(r.size ? r.size : 1, kGranule);
    Held held(lock_);
    std::byte* at = holes_.take(bytes);
    if (!at) {
      if (bytes > high_end() - low_) return {};
      at = array_ + low_;
      low_ += bytes;
    }
    used_ += bytes;
    return {at, bytes};
  }

  void release(Thread&, Block b) noexcept {
    std::memset(b.ptr, 0, b.size);
    Held held(lock_);
    used_ -= b.size;
    if (b.end() != array_ + low_) return holes_.put(b.ptr, b.size);
    low_ = static_cast<std::size_t>(b.ptr - array_);
    std::size_t bytes = 0;
    if (holes_.take_ending_at(b.ptr, bytes)) low_ -= bytes;
  }

  /// Bookkeeping memory: zeroed, never released.
  std::byte* meta(std::size_t bytes) noexcept { return side(round_up(bytes, kMetaAlign)); }

  /// A table of at most `bytes`: all of it, at once.
  std::byte* side(std::size_t bytes) noexcept {
    Held held(lock_);
    if (bytes > kBytes - taken_high_ || high_end() - low_ < bytes) return nullptr;
    taken_high_ += bytes;
    return array_ + kBytes - taken_high_;
  }
  bool back_side(std::byte*, std::size_t) noexcept { return true; }

  void lock_all() noexcept { hold(lock_); }
  void unlock_all() noexcept { let_go(lock_); }
  void reset_after_fork() noexcept { lock_.reset(); }

  void tell(Usage& u) noexcept {
    Held held(lock_);
    u.mapped += used_;
    u.in_window(array_, kBytes);
    u.meta += taken_high_;
  }

 private:
  static constexpr std::size_t kMetaAlign = 64;
  /// Blocks end at a whole granule below the tables.
  std::size_t high_end() const noexcept { return round_down(kBytes - taken_high_, kGranule); }

  Sync lock_;
  std::size_t low_ = 0, used_ = 0, taken_high_ = 0;
  HoleList holes_;
  alignas(kGranuleBytes) std::byte array_[kBytes] = {};
};

}  // namespace mortise
