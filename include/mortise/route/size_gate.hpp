// Which sizes are looked up at all: a class whose objects nobody would tell apart is let through to the heap below.
//
//   malloc(n) ── n <= the largest open size? ── class open? ── look the chain up
//                   └ no: below, two instructions on   └ no: below
//
// Progress: asking is wait-free and reads two lines that hardly ever change; opening and closing take a lock.
#pragma once

#include "mortise/core/core.hpp"
#include "mortise/sync/futex_lock.hpp"

namespace mortise {

enum class Gate : std::uint8_t { unasked, open, closed };

/// A gate for each class of 16 bytes. All zero: no size is let in. Thread-safe.
class SizeGate {
 public:
  static constexpr unsigned kClasses = 256;

  MORTISE_HOT static std::size_t class_of(std::size_t size) noexcept { return (size + kMinAlign - 1) / kMinAlign; }
  /// Whether requests of `size` bytes are looked up. An empty request is of no class.
  MORTISE_HOT bool lets_in(std::size_t size) const noexcept {
    return size <= glance(largest_) && glance(gate_[class_of(size)]) == Gate::open;
  }
  /// Of a size up to `bytes_max`; `unasked` until it is set.
  Gate gate_of(std::size_t size) const noexcept { return size && size <= bytes_max_ ? glance(gate_[class_of(size)]) : Gate::closed; }

  /// Nobody has asked yet for any class of up to `bytes`; the others are closed.
  void limit_to(std::size_t bytes) noexcept {
    Held held(lock_);
    for (Gate& g : gate_) show(g, Gate::unasked);
    bytes_max_ = bytes < (kClasses - 1) * kMinAlign ? bytes : (kClasses - 1) * kMinAlign;
    settle();
  }
  void set(std::size_t size_class, Gate to) noexcept {
    Held held(lock_);
    show(gate_[size_class], to);
    settle();
  }

  void lock_all() noexcept { lock_.lock(); }
  void unlock_all() noexcept { lock_.unlock(); }
  void reset_after_fork() noexcept { lock_.reset(); }

 private:
  void settle() noexcept {
    std::size_t c = class_of(bytes_max_);
    while (c && gate_[c] != Gate::open) --c;
    show(largest_, c * kMinAlign < bytes_max_ ? c * kMinAlign : bytes_max_);
  }

  std::size_t largest_ = 0;  ///< of all open classes; 0: none is
  Gate gate_[kClasses] = {};
  std::size_t bytes_max_ = 0;
  FutexLock lock_;
};

}  // namespace mortise
