// Memory from mmap, within one window of address space, so that a pointer's place in it can be computed.
//
//   origin                                                    origin + kReach
//   ┌──────────┬──────┬──────────┬──────────────────────────────┐
//   │ mapped   │ hole │ mapped   │ nothing mapped yet           │   next-fit: requests go to the first free place
//   └──────────┴──────┴──────────┴──────────────────────────────┘   behind the last one; the kernel says what is taken
//
// Nothing is reserved: the window is a random place in the address space where nobody else maps, and each request is mapped at
// an exact address with MAP_FIXED_NOREPLACE. So limits on address space (ulimit -v) and strict overcommit count only what is used.
//
// Progress: as the kernel's mmap (blocking). Placement: a source; stands at the bottom.
#pragma once

#include "mortise/core/core.hpp"
#include "mortise/data/meta_arena.hpp"
#include "mortise/os/entropy.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/os/pages.hpp"
#include "mortise/sync/futex_lock.hpp"

namespace mortise {

/// Every size is rounded up to `kGranule`, and every block is aligned to it. O(1) but for the kernel's work.
/// Thread-safe. Errors: an empty block when the kernel refuses or the window is full.
template <std::size_t kGranuleBytes = 64_KiB> class MmapHeap {
 public:
  struct Thread {};
  using Classes = NoClasses;
  static constexpr const char* kName = "MmapHeap";
  static constexpr const char* kWhat = "pages from mmap, inside one window of address space";
  static constexpr Progress kProgress = Progress::of(Guarantee::blocking);
  static constexpr std::size_t kGranule = kGranuleBytes;
  static constexpr std::size_t kReach = 4_TiB;       ///< the window: address space only
  static constexpr std::size_t kSideReach = 64_GiB;  ///< behind it: address space for tables that grow with the heap

  template <class Out> static void describe(Out& out) { out.layer(kName, kWhat).number("granule_bytes", kGranule); }

  bool start(const os::Facts&) noexcept {
    Held held(lock_);
    return start_locked();
  }

  /// Lowest address of any block, once started. Constant from then on.
  std::byte* origin() const noexcept { return origin_; }

  Block allocate(Thread&, Request r) noexcept {
    Held held(lock_);
    if (!start_locked() || r.align > kGranule) return {};
    const std::size_t bytes = round_up(r.size ? r.size : 1, kGranule);
    if (bytes > kReach) return {};
    for (unsigned tries = 0; tries < kTries; ++tries) {
      if (bytes > kReach - next_) next_ = 0;
      std::byte* const at = origin_ + next_;
      const os::MapAt result = os::map_at(at, bytes);
      if (result == os::MapAt::refused) return {};
      next_ += bytes;
      if (result == os::MapAt::done) {
        mapped_ += bytes;
        return {at, bytes};
      }
    }
    return {};
  }

  /// Unmaps it. Its address may be given out again.
  void release(Thread&, Block b) noexcept {
    os::unmap(b.ptr, b.size);
    Held held(lock_);
    mapped_ -= b.size;
    if (b.end() == origin_ + next_) next_ = static_cast<std::size_t>(b.ptr - origin_);
  }

  /// Bookkeeping memory: zeroed, never released.
  std::byte* meta(std::size_t bytes) noexcept {
    Held held(lock_);
    return meta_.take(bytes);
  }

  /// Address space for a table of at most `bytes` that grows with the heap. Nothing is mapped: call `back_side`.
  std::byte* side(std::size_t bytes) noexcept {
    Held held(lock_);
    bytes = round_up(bytes, kGranule);
    if (!start_locked() || bytes > kSideReach - side_next_) return nullptr;
    std::byte* const at = origin_ + kReach + side_next_;
    side_next_ += bytes;
    return at;
  }
  /// Makes a part of a side table usable: zeroed memory. False when the system refuses.
  bool back_side(std::byte* at, std::size_t bytes) noexcept {
    if (os::map_at(at, bytes) != os::MapAt::done) return false;
    Held held(lock_);
    side_mapped_ += bytes;
    return true;
  }

  void lock_all() noexcept { lock_.lock(); }
  void unlock_all() noexcept { lock_.unlock(); }
  void reset_after_fork() noexcept { lock_.reset(); }

  void tell(Usage& u) noexcept {
    Held held(lock_);
    u.mapped += mapped_;
    u.meta += meta_.mapped_bytes() + side_mapped_;
  }

 private:
  static constexpr unsigned kTries = 1024;

  // The window lies at a random multiple of 4 GiB in a range that kernels with 47-bit user addresses leave empty: far above
  // the program and its break, far below the libraries and stacks.
  bool start_locked() noexcept {
    if (origin_) [[likely]] return true;
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
  std::size_t next_ = 0;
  std::size_t mapped_ = 0;
  std::size_t side_next_ = 0;
  std::size_t side_mapped_ = 0;
  MetaArena meta_;
};

}  // namespace mortise
