// Memory from the program break: the classic source, one piece of address space that grows upwards.
//
//   end of the program's data    origin                         break
//   ──────────────┬──────────────┬────────┬──────┬──────────────┬─────────────▶ high address
//                 │ granule edge │ used   │ hole │ used         │ the next request
//
// 1. A hole that fits is used again; 2. else the break moves up. What is released at the top moves it down; elsewhere it becomes
// a hole, and its pages go back to the system. Others may move the break too (libc's own malloc): what they took is left alone.
//
// Progress: blocking. Source: [Kernighan88] 8.7. Placement: a source; stands at the bottom; one a process is sensible.
#pragma once

#include "mortise/core/core.hpp"
#include "mortise/data/hole_list.hpp"
#include "mortise/os/brk.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/os/pages.hpp"
#include "mortise/os/window.hpp"
#include "mortise/source/window_source.hpp"

namespace mortise {

/// Every size is rounded up to `kGranule`, and every block is aligned to it. Thread-safe.
/// Errors: an empty block when the kernel refuses or the reach above the first block is used up. O(holes).
/// `kGranuleBytes` (4 KiB..2 MiB, power of two): sizes are multiples of it. Pages of the machine are not larger.
/// `kReachBytes` (1 MiB..1 TiB, power of two): how far the break may move.
template <std::size_t kGranuleBytes = 64_KiB, std::size_t kReachBytes = 64_GiB>
class BrkHeap : public WindowSource<kGranuleBytes, kReachBytes> {
  using Window = WindowSource<kGranuleBytes, kReachBytes>;
  using Window::lock_, Window::origin_;

 public:
  using typename Window::Thread;
  using Window::kGranule, Window::kReach;
  static constexpr const char* kName = "BrkHeap";
  static constexpr const char* kWhat = "pages from the program break";

  template <class Out> static void describe(Out& out) { out.layer(kName, kWhat).number("granule_bytes", kGranule); }

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
    os::purge(b.ptr, b.size);
    Held held(lock_);
    used_ -= b.size;
    std::byte* top = b.ptr;
    std::size_t bytes = b.size;
    if (b.end() == end_ && os::break_now() == end_) {  // and the hole below it goes with it
      if (std::byte* hole = holes_.take_ending_at(top, bytes)) top = hole;
      if (os::break_to(top)) {
        end_ = top;
        return;
      }
      bytes = static_cast<std::size_t>(b.end() - top);
    }
    std::memset(top, 0, bytes < 64 ? bytes : 64);
    holes_.put(top, bytes);
  }

  void tell(Usage& u) noexcept {
    Held held(lock_);
    this->tell_window(u, used_, static_cast<std::size_t>(end_ - origin_));
  }

 private:
  bool start_locked() noexcept {
    if (origin_) [[likely]] return true;
    std::byte* const place = os::find_window();
    std::byte* const now = os::break_now();
    if (!place || !now) return false;
    this->side_.place(place, Window::kSideReach);
    end_ = origin_ = reinterpret_cast<std::byte*>(round_up(address_of(now), kGranule));
    return true;
  }
  /// Moves the break up by `bytes`, past what others took since; that is never ours.
  std::byte* extend(std::size_t bytes) noexcept {
    auto* const now = reinterpret_cast<std::byte*>(round_up(address_of(os::break_now()), kGranule));
    std::byte* const at = now > end_ ? now : end_;
    if (static_cast<std::size_t>(at - origin_) > kReach - bytes || !os::break_to(at + bytes)) return nullptr;
    end_ = at + bytes;
    return at;
  }

  std::byte* end_ = nullptr;  ///< of what we last took
  std::size_t used_ = 0;
  HoleList holes_;
};

}  // namespace mortise
