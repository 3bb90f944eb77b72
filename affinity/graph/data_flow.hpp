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

  constexpr explicit DataFlow(Code& code) noexcept : code_(code) {}

  /// Follows the object from `start` on. Returns how many instructions were looked at; the stores are there until the next run.
  unsigned run(const Start& start) noexcept;
  unsigned stores() const noexcept { return stores_; }
  const Store& stored(unsigned n) const noexcept { return store_[n]; }

 private:
  struct Slot {
    std::uintptr_t at;
    Value value;
  };
  struct State {
    Value general[16];
    Value lane[16][2];
    Slot slot[kSlots];
    unsigned slots;
  };
  struct Block {
    std::uintptr_t pc;
    State state;
    unsigned visits;
    bool waits;
  };

  void follow(Block& block) noexcept;
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
  Value derive(std::uint64_t bits, bool from_pointer) const noexcept {
    return {bits, true, from_pointer && bits - object_ <= size_};
  }

  Code& code_;
  ForeignMemory memory_;
  State now_ = {};
  Block block_[kBlocks] = {};
  Store store_[kStores] = {};
  unsigned blocks_ = 0, stores_ = 0, looked_at_ = 0;
  std::uintptr_t object_ = 0, stack_ = 0;
  std::size_t size_ = 0;
};

}  // namespace mortise::affinity
