// Where a new pointer may be, between two instructions of a function that may be a wrapper of malloc.
#pragma once

#include <cstdint>

#include "affinity/observe/code.hpp"

namespace mortise::affinity {

/// Instructions as the interpreter's: by Zydis only where they are none of the most frequent.
inline bool read_op(std::uintptr_t pc, std::uintptr_t last, Op& op) noexcept {
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(pc);
  const std::size_t room = last - pc;
  return (room >= 16 && lift_plain(pc, bytes, op)) || lift(pc, bytes, room < 16 ? static_cast<unsigned>(room) : 16, op);
}
inline int whole_of(const Operand& o) noexcept { return o.place == Operand::Place::general && o.bytes == 8 ? o.reg : -1; }
constexpr std::uint32_t bit(int r) noexcept { return r < 0 ? 0 : 1u << r; }
constexpr std::uint32_t kCallerSaved = bit(kRax) | bit(kRcx) | bit(kRdx) | bit(kRsi) | bit(kRdi) | 0xf00;  // r8 to r11
constexpr std::uint32_t kArguments = bit(kRdi) | bit(kRsi) | bit(kRdx) | bit(kRcx) | 0x300;                // r8, r9

/// What is known between two instructions: where the pointer may be. Places in the frame are told by their distance from the
/// stack pointer at the start.
struct Place {
  std::uintptr_t pc = 0;
  std::uint32_t holders = 0;       ///< registers that hold the pointer, or the pointer plus `offset`
  std::int32_t offset[16] = {};
  std::int32_t sp = 0;             ///< stack pointer
  std::int32_t rbp = 0;            ///< frame pointer, where `has_rbp`
  bool has_rbp = false;
  bool null_is_zero = false;       ///< the zero flag says that the pointer is null
  bool null_is_other = false;      ///< the zero flag says that it is not
  int told_by = -1;                ///< register that was set to whether the pointer is null: unoptimised code's tests
  bool told_null = false;          ///< by 1, or else by 0
  std::int32_t written = 0;        ///< bytes from the pointer on that have been written: a header
  static constexpr unsigned kSlots = 6;
  unsigned slots = 0;
  std::int32_t slot[kSlots] = {};
  std::int32_t slot_offset[kSlots] = {};

  bool holds(int r) const noexcept { return holders & bit(r); }
  /// The place in the frame that a memory operand means; false when it is none.
  bool frame_place(const Operand& o, std::int32_t& at) const noexcept {
    if (o.place != Operand::Place::memory || o.index != kNoRegister || o.thread_local_) return false;
    if (o.reg != kRsp && !(o.reg == kRbp && has_rbp)) return false;
    at = (o.reg == kRsp ? sp : rbp) + static_cast<std::int32_t>(o.value);
    return true;
  }
  void take(int r, std::int32_t at) noexcept {
    if (r < 0) return;
    holders |= bit(r);
    offset[r] = at;
  }
  void drop(int r) noexcept { holders &= ~bit(r); }
  int find_slot(std::int32_t at) const noexcept {
    for (unsigned i = 0; i < slots; ++i)
      if (slot[i] == at) return static_cast<int>(i);
    return -1;
  }
  void drop_slot(std::int32_t at) noexcept {
    if (const int i = find_slot(at); i >= 0) {
      slot[i] = slot[--slots];
      slot_offset[i] = slot_offset[slots];
    }
  }
  bool put_slot(std::int32_t at, std::int32_t pointer_offset) noexcept {
    drop_slot(at);
    if (slots == kSlots) return false;
    slot[slots] = at;
    slot_offset[slots++] = pointer_offset;
    return true;
  }

  // -- what instructions do
  void forget_flags() noexcept { null_is_zero = null_is_other = false; }
  void forget(int r) noexcept {
    if (told_by == r) told_by = -1;
    if (r == kRbp) has_rbp = false;
    drop(r);
    forget_flags();
  }
  void copy(int r, int s) noexcept {
    if (r == kRsp && s == kRbp && has_rbp) sp = rbp;
    if (r == kRbp) has_rbp = s == kRsp;
    if (r == kRbp && s == kRsp) rbp = sp;
    if (holds(s)) take(r, offset[s]);
    else drop(r);
  }
  void load(int r, std::int32_t at) noexcept {
    if (r == kRbp) has_rbp = false;
    if (const int i = find_slot(at); i >= 0) take(r, slot_offset[i]);
    else drop(r);
  }
  void push(int r) noexcept {
    sp -= 8;
    drop_slot(sp);
    if (r >= 0 && holds(r)) put_slot(sp, offset[r]);
  }
  void pop(int r) noexcept {
    if (r >= 0) load(r, sp);
    sp += 8;
  }
  void shift(int r, std::int32_t n) noexcept {
    if (r == kRsp) sp += n;
    if (r == kRbp) has_rbp = false;
    if (holds(r)) offset[r] += n;
    forget_flags();
  }
};

}  // namespace mortise::affinity
