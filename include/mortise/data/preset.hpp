// A field that begins as something other than zero, in memory that begins as zeros.
//
// A heap is a global of up to some megabytes, of which a program touches little. One word in it that is not zero puts all of it into the
// library's file: pages of it then come from there, sixteen for each that is touched. Of a heap of zeros, touched pages exist, no others.
//
// Progress: wait-free; any thread may read while one writes, in no order (relaxed). Placement: leans on the atomics only.
#pragma once

#include <type_traits>

#include "mortise/sync/atomics.hpp"

namespace mortise {

/// A value that is `kFirst` until another is set. O(1).
template <auto kFirst> class Preset {
 public:
  using Value = std::remove_cv_t<decltype(kFirst)>;
  constexpr Preset() noexcept = default;
  Preset& operator=(const Preset&) = delete;
  operator Value() const noexcept { return bits_.load(Order::relaxed) ^ kFirst; }
  Preset& operator=(Value value) noexcept {
    bits_.store(value ^ kFirst, Order::relaxed);
    return *this;
  }

 private:
  Atomic<Value> bits_{0};
};

}  // namespace mortise
