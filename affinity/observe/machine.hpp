// Registers, flags and memory of the program as far as they are known, and what was stored where on the way.
#pragma once

#include "affinity/observe/code.hpp"
#include "affinity/observe/shadow.hpp"

namespace mortise::affinity {

/// One observed store of a word: `value` went to `address`. `derived`: it points into the object under observation.
struct Store {
  std::uintptr_t address;
  std::uint64_t value;
  bool derived;
};

class Machine {
 public:
  static constexpr unsigned kStores = 64, kSlots = 32, kAccesses = 64;
  static constexpr std::uint8_t kZero = 1, kSign = 2, kCarry = 4, kOverflow = 8, kParity = 16, kAllFlags = 31;

  /// Forgets everything. `stack`: the stack pointer at the start. The object under observation is [object, object + size).
  void begin(std::uintptr_t stack, std::uintptr_t object, std::size_t size) noexcept;

  const Value& general(unsigned r) const noexcept { return general_[r]; }
  void set_general(unsigned r, Value v) noexcept {
    general_[r] = v;
    derived_general_ = static_cast<std::uint16_t>((derived_general_ & ~(1u << r)) | (v.derived ? 1u << r : 0u));
  }
  const Value& lane(unsigned r, unsigned n) const noexcept { return vector_[r][n]; }
  void set_lane(unsigned r, unsigned n, Value v) noexcept {
    const unsigned bit = 2 * r + n;
    vector_[r][n] = v;
    derived_vector_ = (derived_vector_ & ~(1u << bit)) | (v.derived ? 1u << bit : 0u);
  }

  /// False if the address is not known.
  bool address_of(const Operand& o, std::uintptr_t& address) const noexcept;
  Value read(const Operand& o) noexcept {
    if (o.place == Operand::Place::immediate) return Value::of(static_cast<std::uint64_t>(o.value));
    if (o.place == Operand::Place::general && (o.bytes >= 8 || !general_[o.reg].known)) return general_[o.reg];
    return read_part(o);
  }
  void write(const Operand& o, Value v) noexcept {
    if (o.place == Operand::Place::general && o.bytes >= 8) return set_general(o.reg, v);
    if (o.place == Operand::Place::general || o.place == Operand::Place::memory) write_part(o, v);
  }
  Value load(std::uintptr_t address, unsigned bytes) noexcept;
  void store(std::uintptr_t address, unsigned bytes, Value v) noexcept;

  /// Integer arithmetic, vector moves and what is forgotten; everything but the flow of control.
  void execute(const Op& op) noexcept;
  /// 1 holds, 0 does not, -1 unknown.
  int holds(unsigned condition) const noexcept;
  /// What a call that is not followed leaves: registers that the caller saves are unknown.
  void forget_caller_saved() noexcept;
  /// memset(rdi, rsi, rdx) and memcpy(rdi, rsi, rdx), if they are short enough to be followed.
  void fill_bytes() noexcept;
  void copy_bytes() noexcept;
  void forget_flags() noexcept { flags_known_ = 0; }
  Value pop() noexcept;
  void push(Value v) noexcept;

  /// Whether a register, a vector or a slot of a live frame still points into the object.
  bool holds_pointer() const noexcept;
  /// `bits` as a value that points into the object if a part of it does and the sum lies within.
  Value derive(std::uint64_t bits, bool from_pointer) const noexcept {
    return {bits, true, from_pointer && bits - object_ <= size_};
  }

  bool unreadable() const noexcept { return unreadable_; }
  bool full() const noexcept { return full_; }
  bool lost_stack() const noexcept { return !general_[kRsp].known; }
  bool too_long() const noexcept { return too_long_; }
  unsigned stores() const noexcept { return stores_; }
  const Store& stored(unsigned n) const noexcept { return store_[n]; }
  unsigned accesses() const noexcept { return accesses_; }
  std::uintptr_t access(unsigned n) const noexcept { return access_[n]; }
  ShadowMemory& memory() noexcept { return memory_; }

 private:
  Value read_part(const Operand& o) noexcept;
  void write_part(const Operand& o, Value v) noexcept;
  void arithmetic(const Op& op) noexcept;
  void multiply(const Op& op) noexcept;
  void shift(const Op& op) noexcept;
  void move_vector(const Op& op) noexcept;
  void strings(const Op& op) noexcept;
  void forget(const Op& op) noexcept;
  Value read_lane(const Operand& o, unsigned n, unsigned bytes = 8) noexcept;
  void flags_of_result(std::uint64_t result, unsigned bytes, bool carry, bool overflow) noexcept;
  void flags_of_sum(std::uint64_t a, std::uint64_t b, unsigned bytes) noexcept;
  void flags_of_difference(std::uint64_t a, std::uint64_t b, unsigned bytes) noexcept;
  void set_flag(std::uint8_t flag, bool on) noexcept {
    flags_ = static_cast<std::uint8_t>(on ? flags_ | flag : flags_ & ~flag);
    flags_known_ |= flag;
  }
  void note(std::uintptr_t address, Value v) noexcept;

  Value general_[16];
  Value vector_[16][2];
  std::uint32_t derived_vector_ = 0;
  std::uint16_t derived_general_ = 0;
  std::uint8_t flags_ = 0, flags_known_ = 0;
  bool unreadable_ = false, full_ = false, too_long_ = false;
  std::uintptr_t stack_ = 0, object_ = 0;
  std::size_t size_ = 0;
  unsigned stores_ = 0, slots_ = 0, accesses_ = 0;
  Store store_[kStores] = {};
  std::uintptr_t slot_[kSlots] = {};  // of the stack, where a pointer into the object was written
  std::uintptr_t access_[kAccesses] = {};
  ShadowMemory memory_;
};

}  // namespace mortise::affinity
