// Memory that somebody else owns: an array, a mapping, a block of another heap. Blocks from its low end, tables from its high end.
//
//   begin ┌────────────┬──────────────────────┬────────┐ end
//         │ blocks ──► │        free          │ tables │
//         └────────────┴──────────────────────┴────────┘
//
// A block that is released is given out again only when it was the last: backbones above keep what they were given.
//
// Progress: blocking (one lock). Placement: a source; stands at the bottom.
#pragma once

#include <cstring>

#include "mortise/core/core.hpp"
#include "mortise/sync/fork_attempt.hpp"
#include "mortise/sync/futex_lock.hpp"

namespace mortise {

/// Thread-safe. The range must outlive the heap and read as zero when it is bound. Errors: an empty block when it is used up.
/// `kGranuleBytes` (64..64 KiB, power of two): sizes are multiples of it.
template <std::size_t kGranuleBytes = 64> class RangeHeap {
 public:
  struct Thread {};
  using Classes = NoClasses;
  static constexpr const char* kName = "RangeHeap";
  static constexpr const char* kWhat = "memory that the program brings";
  static constexpr bool kToldByProgram = true;  ///< refused in a library that nobody tells
  static constexpr Progress kProgress = Progress::of(Guarantee::blocking);
  static constexpr std::size_t kGranule = kGranuleBytes;
  static constexpr std::size_t kReach = std::size_t{1} << 46;

  template <class Out> static void describe(Out& out) { out.layer(kName, kWhat).number("granule_bytes", kGranule); }

  /// Once, before first use.
  void bind(std::byte* begin, std::byte* end) noexcept {
    origin_ = low_ = reinterpret_cast<std::byte*>(round_up(address_of(begin), kGranule));
    high_ = end;
  }
  std::byte* origin() const noexcept { return origin_; }

  Block allocate(Thread&, Request r) noexcept {
    if (r.size > kReach || r.align > kGranule) return {};
    const std::size_t bytes = round_up(r.size ? r.size : 1, kGranule);
    Held held(lock_);
    if (low_ > high_ || bytes > static_cast<std::size_t>(high_ - low_)) return {};
    std::byte* const at = low_;
    low_ += bytes;
    return {at, bytes};
  }
  void release(Thread&, Block b) noexcept {
    Held held(lock_);
    if (b.end() == low_) low_ = b.ptr;
  }

  std::byte* meta(std::size_t bytes) noexcept { return side(bytes); }
  std::byte* side(std::size_t bytes) noexcept {
    bytes = round_up(bytes, kMinAlign);
    Held held(lock_);
    if (low_ > high_ || bytes > static_cast<std::size_t>(high_ - low_)) return nullptr;
    high_ = reinterpret_cast<std::byte*>(round_down(address_of(high_ - bytes), kMinAlign));
    if (high_ < low_) return nullptr;
    std::memset(high_, 0, bytes);
    return high_;
  }
  bool back_side(std::byte*, std::size_t) noexcept { return true; }

  void lock_all() noexcept { hold(lock_); }
  void unlock_all() noexcept { let_go(lock_); }
  void reset_after_fork() noexcept { lock_.reset(); }
  void tell(Usage& u) noexcept {
    Held held(lock_);
    u.mapped += static_cast<std::size_t>(low_ - origin_);
    u.in_window(origin_, static_cast<std::size_t>(low_ - origin_));
  }

 private:
  FutexLock lock_;
  std::byte *origin_ = nullptr, *low_ = nullptr, *high_ = nullptr;
};

}  // namespace mortise
