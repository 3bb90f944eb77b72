// No lock: for heaps that one thread uses.
#pragma once

#include "mortise/sync/sync.hpp"

namespace mortise {

struct Unsynchronised {
  static constexpr const char* kName = "Unsynchronised";
  static constexpr Guarantee kGuarantee = Guarantee::wait_free;
  void lock() noexcept {}
  void unlock() noexcept {}
  void reset() noexcept {}
};

}  // namespace mortise
