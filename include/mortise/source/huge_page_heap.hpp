// Memory in huge pages: 2 MiB of address space share one TLB entry, and one first touch brings all of it.
//
//   origin                              mapped_ (a multiple of 2 MiB)
//   ┌──────┬──────┬─────────────┬───────┐
//   │ used │ hole │ used        │ rest  │ more is mapped 2 MiB at a time      a hole is used again before the rest
//   └──────┴──────┴─────────────┴───────┘
//
// 1. Pages that the administrator set aside (vm.nr_hugepages) when there are any; 2. else ordinary memory that asks for transparent
// huge pages. Which it was can be asked. What is released stays mapped, is cleared, and becomes a hole.
//
// Progress: as the kernel's mmap (blocking). Source: huge pages under heaps [Hunter21].
// Placement: a source; stands at the bottom; for heaps of tens of megabytes and more.
#pragma once

#include "mortise/core/core.hpp"
#include "mortise/data/hole_list.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/os/pages.hpp"
#include "mortise/os/window.hpp"
#include "mortise/source/window_source.hpp"

namespace mortise {

/// Every size is rounded up to the granule, and every block is aligned to it. Thread-safe.
/// Errors: an empty block when the kernel refuses or the window is full. O(holes).
/// `kGranuleBytes` (4 KiB..2 MiB, power of two): sizes are multiples of it. Pages of the machine are not larger.
/// `kReachBytes` (4 MiB..4 TiB, power of two): the window; address space only.
template <std::size_t kGranuleBytes = 64_KiB, std::size_t kReachBytes = os::kWindowBytesMax>
class HugePageHeap : public WindowSource<kGranuleBytes, kReachBytes> {
  using Window = WindowSource<kGranuleBytes, kReachBytes>;
  using Window::lock_, Window::origin_;

 public:
  using typename Window::Thread;
  using Window::kGranule, Window::kReach;
  static constexpr const char* kName = "HugePageHeap";
  static constexpr const char* kWhat = "huge pages: set aside by the administrator, or transparent ones";
  static constexpr std::size_t kPage = 2_MiB;

  template <class Out> static void describe(Out& out) {
    out.layer(kName, kWhat).number("granule_bytes", kGranule).number("page_bytes", kPage);
  }

  bool start(const os::Facts&) noexcept {
    Held held(lock_);
    return start_locked();
  }

  Block allocate(Thread&, Request r) noexcept {
    Held held(lock_);
    if (!start_locked() || r.align > kGranule || r.size > kReach) return {};
    const std::size_t bytes = round_up(r.size ? r.size : 1, kGranule);
    std::byte* at = holes_.take(bytes);
    if (!at && !(at = extend(bytes))) return {};
    used_ += bytes;
    return {at, bytes};
  }

  void release(Thread&, Block b) noexcept {
    if (!os::purge(b.ptr, b.size)) std::memset(b.ptr, 0, b.size);  // pages set aside go back whole or not at all
    Held held(lock_);
    used_ -= b.size;
    holes_.put(b.ptr, b.size);
  }

  /// Bytes in pages that were set aside; the others are ordinary memory that asks for huge pages.
  std::size_t set_aside_bytes() const noexcept { return set_aside_; }

  void tell(Usage& u) noexcept {
    Held held(lock_);
    this->tell_window(u, used_, mapped_);
  }

 private:
  bool start_locked() noexcept {
    if (origin_) [[likely]] return true;
    origin_ = os::find_window();  // at a multiple of 2 MiB
    if (!origin_) return false;
    this->side_.place(origin_ + kReach, Window::kSideReach);
    return true;
  }
  /// From the rest of what is mapped, or from more. Past what lies in the way: a rest before it becomes a hole.
  std::byte* extend(std::size_t bytes) noexcept {
    for (unsigned tries = 0; tries < kTries; ++tries) {
      if (bytes > kReach - next_) return nullptr;
      const std::size_t missing = next_ + bytes > mapped_ ? round_up(next_ + bytes - mapped_, kPage) : 0;
      if (missing > kReach - mapped_) return nullptr;
      const os::MapAt result = missing ? map(origin_ + mapped_, missing) : os::MapAt::done;
      if (result == os::MapAt::refused) return nullptr;
      if (result == os::MapAt::done) {
        mapped_ += missing;
        next_ += bytes;
        return origin_ + next_ - bytes;
      }
      if (mapped_ > next_) holes_.put(origin_ + next_, mapped_ - next_);
      mapped_ += kPage;
      next_ = mapped_;
    }
    return nullptr;
  }
  os::MapAt map(std::byte* at, std::size_t bytes) noexcept {
    const os::MapAt huge = os::map_huge_at(at, bytes);
    if (huge == os::MapAt::done) set_aside_ += bytes;
    if (huge != os::MapAt::refused) return huge;
    const os::MapAt plain = os::map_at(at, bytes);
    if (plain == os::MapAt::done) os::advise_huge(at, bytes);
    return plain;
  }
  static constexpr unsigned kTries = 1024;

  std::size_t next_ = 0;    ///< where the rest begins, from the origin
  std::size_t mapped_ = 0;  ///< and where it ends
  std::size_t used_ = 0, set_aside_ = 0;
  HoleList holes_;
};

}  // namespace mortise
