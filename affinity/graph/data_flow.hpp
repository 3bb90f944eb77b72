// Data flow on the code after an allocation, within the function that the outermost wrapper returns to: where every way from
// there may store the new object, or store into it. The interpreter sees the one way that is taken; this sees the others too.
//
//   state  what is known of each register, vector lane and stack slot, as the interpreter's values
//   flow   forward over basic blocks, all branches; where ways meet, what differs becomes unknown
//   calls  are not entered: what callees may change is unknown
//   ends   where nothing points into the object; after 400 instructions; after 40 blocks
//
// Source: the intra-procedural analysis of [Wang10]. Bounded; not synchronised; runs inside malloc.
#pragma once

#include "affinity/observe/code_cache.hpp"
#include "affinity/observe/interpret.hpp"

namespace mortise::affinity {

class DataFlow {
 public:
  static constexpr unsigned kInstructions = 400, kBlocks = 40, kVisits = 3, kSlots = 24, kStores = 64;

  /// Follows the object from `start` on; instructions that were decoded once are in `code`, pages that were seen in `memory`, which
  /// has begun. Returns how many instructions were looked at; the stores are there until the next run.
  unsigned run(Code& code, ForeignMemory& memory, const Start& start) noexcept;
  unsigned stores() const noexcept { return stores_; }
  const Store& stored(unsigned n) const noexcept { return store_[n]; }

 private:
  /// So many values, in which those that are known, and those that point into the object, are found without looking at each.
  template <unsigned kCount> struct Values {
    std::uint64_t bits[kCount];
    std::uint32_t known, derived;  // masks; what is derived is known

    Value operator[](unsigned n) const noexcept { return {bits[n], (known >> n & 1) != 0, (derived >> n & 1) != 0}; }
    void set(unsigned n, Value v) noexcept {
      bits[n] = v.bits;
      known = (known & ~(1u << n)) | std::uint32_t{v.known} << n;
      derived = (derived & ~(1u << n)) | std::uint32_t{v.derived} << n;
    }
    void forget(std::uint32_t which) noexcept { known &= ~which, derived &= ~which; }
    bool is_derived(unsigned n) const noexcept { return derived >> n & 1; }
  };
  struct State {
    Values<16> general;
    Values<32> lane;  // two of each vector
    Values<kSlots> slot;
    std::uintptr_t slot_at[kSlots];
    unsigned slots;

    /// Becomes what is known in `from`: of what is not, nothing is touched, for most blocks know of few slots and of no vector.
    void take(const State& from) noexcept {
      general = from.general;
      if (from.lane.known) lane = from.lane;
      else lane.forget(~0u);
      for (unsigned n = 0; n < from.slots; ++n) slot.bits[n] = from.slot.bits[n], slot_at[n] = from.slot_at[n];
      slot.known = from.slot.known, slot.derived = from.slot.derived;
      slots = from.slots;
    }
  };
  struct Block {
    State state;
    unsigned visits;
  };

  void follow(unsigned block) noexcept;
  bool execute(const Op& op) noexcept;
  bool execute_stack(const Op& op) noexcept;
  void forget(const Op& op) noexcept;
  void execute_vector(const Op& op) noexcept;
  void reach(std::uintptr_t pc) noexcept;
  bool meet(State& into) const noexcept;
  bool address_of(const Operand& o, std::uintptr_t& address) const noexcept;
  Value load(std::uintptr_t address, unsigned bytes) noexcept;
  void store(std::uintptr_t address, unsigned bytes, Value v) noexcept;
  Value read(const Operand& o) noexcept;
  Value read_lane(const Operand& o, unsigned n) noexcept;
  void write(const Operand& o, Value v) noexcept;
  void note(std::uintptr_t address, Value v) noexcept;
  void forget_caller_saved() noexcept;
  bool holds_pointer() const noexcept;
  bool knows_stack() const noexcept { return now_.general.known >> kRsp & 1; }
  Value derive(std::uint64_t bits, bool from_pointer) const noexcept {
    return {bits, true, from_pointer && bits - object_ <= size_};
  }

  Code* code_ = nullptr;  ///< of this run
  ForeignMemory* memory_ = nullptr;
  /// A bit of `begins_` for the place where a block may begin.
  static std::uint64_t mark_of(std::uintptr_t pc) noexcept { return std::uint64_t{1} << (pc * 0x9e3779b97f4a7c15ull >> 58); }
  int block_at(std::uintptr_t pc) const noexcept;

  State now_ = {};
  Block block_[kBlocks] = {};
  std::uintptr_t pc_[kBlocks] = {};
  std::uint64_t begins_ = 0, waits_ = 0;  // marks of all blocks; a bit for each that is to be followed
  Store store_[kStores] = {};
  unsigned blocks_ = 0, stores_ = 0, looked_at_ = 0;
  std::uintptr_t object_ = 0, stack_ = 0;
  std::size_t size_ = 0;
};

}  // namespace mortise::affinity
