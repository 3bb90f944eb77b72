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
#include "mortise/data/preset.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/os/pages.hpp"
#include "mortise/os/residency.hpp"
#include "mortise/os/window.hpp"
#include "mortise/source/window_source.hpp"

namespace mortise {

/// Every size is rounded up to `kGranule`, and every block is aligned to it. O(1) but for the kernel's work.
/// Thread-safe. Errors: an empty block when the kernel refuses or the window is full.
/// `kGranuleBytes` (4 KiB..2 MiB, power of two): sizes are multiples of it. Pages of the machine are not larger.
/// `kReachBytes` (1 MiB..4 TiB, power of two): the window; address space only.
template <std::size_t kGranuleBytes = 64_KiB, std::size_t kReachBytes = os::kWindowBytesMax>
class MmapHeap : public WindowSource<kGranuleBytes, kReachBytes> {
  using Window = WindowSource<kGranuleBytes, kReachBytes>;
  using Window::lock_, Window::origin_;

 public:
  using typename Window::Thread;
  using Window::kGranule, Window::kReach;
  static constexpr const char* kName = "MmapHeap";
  static constexpr const char* kWhat = "pages from mmap, inside one window of address space";

  template <class Out> static void describe(Out& out) { out.layer(kName, kWhat).number("granule_bytes", kGranule); }

  bool start(const os::Facts& facts) noexcept {
    Held held(lock_);
    page_bytes_ = facts.page_bytes;
    return start_locked(facts.window);
  }

  Block allocate(Thread&, Request r) noexcept {
    Held held(lock_);
    if (!start_locked() || r.align > kGranule) return {};
    const std::size_t bytes = round_up(r.size ? r.size : 1, kGranule);
    if (bytes > kReach) return {};
    std::size_t step = bytes;
    for (unsigned tries = 0; tries < kTries; ++tries) {
      if (next_ > kReach || bytes > kReach - next_) next_ = 0;
      std::byte* const at = origin_ + next_;
      const os::MapAt result = os::map_at(at, bytes);
      if (result == os::MapAt::refused) return {};
      if (result == os::MapAt::done) {
        next_ += bytes;
        mapped_ += bytes;
        if (top_ < next_) top_ = next_;
        if (huge_pages_ == HugePages::never) os::advise_no_huge(at, bytes);
        if (huge_pages_ == HugePages::madvise) os::advise_huge(at, bytes);
        return {at, bytes};
      }
      // Past what is taken: step by step first, for the holes; then in leaps, so that a large heap is soon behind us.
      next_ += step;
      if (tries >= kTries / 2 && step < kReach / 2) step *= 2;
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

  /// Mappings can be cut anywhere.
  void release_part(Thread& t, Block b) noexcept { release(t, b); }

  /// For what is mapped from now on.
  void set_huge_pages(HugePages pages) noexcept {
    Held held(lock_);
    huge_pages_ = pages;
  }

  /// Page-table entries move, bytes do not. What lay at `to` is lost.
  PagesMoved move_pages(std::byte* from, std::byte* to, std::size_t bytes) noexcept {
    // The kernel may have unmapped the target before it refused (a block whose mapping is in pieces, before Linux 6.17).
    const bool moved = os::move(from, to, bytes);
    const os::MapAt again = os::map_at(moved ? from : to, bytes);
    if (moved && again == os::MapAt::done) return PagesMoved::yes;
    if (!moved && again != os::MapAt::refused) return PagesMoved::no;
    Held held(lock_);
    mapped_ -= bytes;
    return moved ? PagesMoved::source_lost : PagesMoved::target_lost;
  }

  /// False when the window is mostly holes: looking through them would take long.
  bool see_resident_bytes(std::size_t& bytes) noexcept {
    std::size_t reached;
    {
      Held held(lock_);
      reached = top_;
      if (!origin_ || reached / 16 > mapped_) return false;
    }
    bytes = os::resident_bytes(origin_, reached, page_bytes_, kGranule);
    return true;
  }

  void tell(Usage& u) noexcept {
    Held held(lock_);
    this->tell_window(u, mapped_, top_);
  }

 private:
  static constexpr unsigned kTries = 1024;

  bool start_locked(std::byte* window = nullptr) noexcept {
    if (origin_) [[likely]] return true;
    origin_ = window ? window : os::find_window();
    if (!origin_) return false;
    this->side_.place(os::side_of(origin_, kReach), Window::kSideReach);
    return true;
  }

  std::size_t next_ = 0;
  std::size_t mapped_ = 0;
  Preset<4_KiB> page_bytes_;
  HugePages huge_pages_ = HugePages::automatic;
  std::size_t top_ = 0;   ///< nothing of ours lies beyond it
};

}  // namespace mortise
