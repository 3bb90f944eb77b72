// Which sizes are looked up at all: a class whose objects nobody would tell apart is let through to the heap below.
//
//   malloc(n) ── bit of the class set? ── n <= the largest open size? ── look the chain up
//                   └ no: below, three instructions on   └ no: below; the bit was another class's, 64 classes on
//
// Progress: asking is wait-free and reads one line that hardly ever changes; opening and closing take a lock.
#pragma once

#include "mortise/core/core.hpp"
#include "mortise/sync/fork_attempt.hpp"
#include "mortise/sync/futex_lock.hpp"

namespace mortise {

enum class Gate : std::uint8_t { unasked, open, closed };

/// A gate for each class of 16 bytes. All zero: no size is let in. Thread-safe.
class SizeGate {
 public:
  static constexpr unsigned kClasses = 64;  ///< a bit each: objects of up to 1024 bytes

  MORTISE_HOT static std::size_t class_of(std::size_t size) noexcept { return (size + kMinAlign - 1) / kMinAlign; }
  /// Whether requests of `size` bytes are looked up. An empty request is of no class.
  MORTISE_HOT bool lets_in(std::size_t size) const noexcept {
    return glance(open_) >> class_of(size) % kClasses & 1 && size - 1 < glance(largest_);
  }
  /// Of a size up to `bytes_max`; `unasked` until it is set.
  Gate gate_of(std::size_t size) const noexcept {
    return size && size <= bytes_max_ ? glance(gate_[class_of(size) % kClasses]) : Gate::closed;
  }

  /// Nobody has asked yet for any class of up to `bytes`; the others are closed.
  void limit_to(std::size_t bytes) noexcept {
    Held held(lock_);
    for (Gate& g : gate_) show(g, Gate::unasked);
    bytes_max_ = bytes < kClasses * kMinAlign ? bytes : kClasses * kMinAlign;
    settle();
  }
  void set(std::size_t size_class, Gate to) noexcept {
    Held held(lock_);
    show(gate_[size_class % kClasses], to);
    settle();
  }

  void lock_all() noexcept { hold(lock_); }
  void unlock_all() noexcept { let_go(lock_); }
  void reset_after_fork() noexcept { lock_.reset(); }

 private:
  /// Who asks meanwhile may see one of the two words as it was: a size is let in only where both say so, and is of an open class then.
  void settle() noexcept {
    std::size_t largest = 0;
    std::uint64_t open = 0;
    for (std::size_t c = class_of(bytes_max_); c; --c) {
      if (gate_[c % kClasses] != Gate::open) continue;
      if (!largest) largest = c * kMinAlign;
      open |= std::uint64_t{1} << c % kClasses;
    }
    show(largest_, largest < bytes_max_ ? largest : bytes_max_);
    show(open_, open);
  }

  std::uint64_t open_ = 0;   ///< bit c % 64: class c is open
  std::size_t largest_ = 0;  ///< of all open classes; 0: none is
  Gate gate_[kClasses] = {};
  std::size_t bytes_max_ = 0;
  FutexLock lock_;
};

}  // namespace mortise
