// Instructions that were decoded once, by address: what follows one allocation is looked at three times, and functions that are
// called from many places more often. Direct-mapped; a hit costs about thirty instructions, a new one a hundred, or, where the decoder must
// read it, 1800.
#pragma once

#include "affinity/observe/code.hpp"
#include "affinity/observe/shadow.hpp"
#include "mortise/data/preset.hpp"

namespace mortise::affinity {

/// Not synchronised: the caller holds the lock of the analysis.
class Code {
 public:
  static constexpr unsigned kEntries = 2048;

  /// From now on each instruction is looked at again once: code is taken to stay as it is until the next call. A loaded module's does until
  /// it is unloaded; code made at run time may change at any time.
  void forget() noexcept { round_ = round_ + 1; }
  /// The operation at `pc`, valid until the next call. Null: no instruction, or, with `readable` false, no memory.
  const Op* at(std::uintptr_t pc, ForeignMemory& memory, bool& readable) noexcept {
    const Entry& e = entries_[slot_[slot_of(pc)]];
    return e.pc == pc && e.round == round_ ? &e.op : look(pc, memory, readable);
  }
  /// Those that were left to Zydis.
  std::uint64_t decoded() const noexcept { return decoded_; }

 private:
  struct Entry {
    std::uintptr_t pc;
    std::uint8_t bytes[16];
    std::uint64_t round;
    Op op;
  };
  const Op* look(std::uintptr_t pc, ForeignMemory& memory, bool& readable) noexcept;

  static unsigned slot_of(std::uintptr_t pc) noexcept { return (pc ^ pc >> 11) % kEntries; }

  std::uint16_t slot_[kEntries] = {};  ///< the entry of each slot; entry 0 is nobody's
  Entry entries_[kEntries + 1] = {};   ///< in the order of first use: few instructions touch few pages
  std::uint16_t used_ = 0;
  std::uint64_t decoded_ = 0;
  Preset<std::uint64_t{1}> round_;  ///< no entry is of round 0
};

}  // namespace mortise::affinity
