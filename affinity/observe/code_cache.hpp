// Instructions that were decoded once, by address: what follows one allocation is looked at three times, and functions that are
// called from many places more often. Direct-mapped; decoding costs about nine hundred instructions, a hit about thirty.
#pragma once

#include "affinity/observe/code.hpp"
#include "affinity/observe/shadow.hpp"

namespace mortise::affinity {

/// Not synchronised: the caller holds the lock of the analysis.
class Code {
 public:
  static constexpr unsigned kEntries = 2048;

  /// The operation at `pc`, valid until the next call. Null: no instruction, or, with `readable` false, no memory.
  const Op* at(std::uintptr_t pc, ForeignMemory& memory, bool& readable) noexcept;
  std::uint64_t decoded() const noexcept { return decoded_; }

 private:
  struct Entry {
    std::uintptr_t pc;
    std::uint8_t bytes[16];
    Op op;
  };
  Entry entries_[kEntries] = {};
  std::uint64_t decoded_ = 0;
};

}  // namespace mortise::affinity
