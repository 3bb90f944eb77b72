// Crimes that were seen while a lock was held, to be answered once it is free: what a fault calls may come back for the lock.
//
// Used by guard/delayed_batches.hpp.
#pragma once

#include "mortise/core/core.hpp"
#include "mortise/policy/on_fault.hpp"

namespace mortise {

/// The first kMost of them; later ones are forgotten. One thread's own.
template <OnFaultPolicy OnFault> class NotedCrimes {
 public:
  static constexpr unsigned kMost = 8;

  void note(const Crime& crime) noexcept {
    if (count_ < kMost) crime_[count_++] = crime;
  }
  void answer() const noexcept {
    for (unsigned i = 0; i < count_; ++i) OnFault::answer(crime_[i]);
  }

 private:
  unsigned count_ = 0;
  Crime crime_[kMost];
};

}  // namespace mortise
