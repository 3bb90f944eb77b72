// The intermediate form: one machine instruction in one cache line, so that the interpreter and the data flow read the same
// few kinds of operation, and an instruction that is met again is not decoded again.
//
// An operation either is one of the kinds below, whose effect is known exactly, or `forget`: everything it writes becomes
// unknown. That is always sound, so a small set of kinds is enough (the first 46 mnemonics reach 99 % of what is executed
// after an allocation).
#pragma once

#include <cstdint>

namespace mortise::affinity {

enum class Kind : std::uint8_t {
  forget,            // writes what its masks say, and `to` if that is memory
  nothing,           //
  move,              // to = a, zero-extended
  move_signed,       // to = a, sign-extended
  address,           // to = the address of a
  add,               // to = a + b; so for all up to `shift_right_signed`
  subtract,          //
  bit_and,           //
  bit_or,            //
  bit_xor,           //
  compare,           // flags of a - b
  test,              // flags of a & b
  increment,         // to = a + 1, the carry stays
  decrement,         //
  negate,            //
  complement,        //
  shift_left,        //
  shift_right,       //
  shift_right_signed,
  multiply,          // to = a * b, the low half
  multiply_wide,     // rdx:rax = rax * a, unsigned
  divide,            // rax, rdx = rdx:rax / a, unsigned
  sign_fill,         // to = all bits the sign of a
  borrow_fill,       // to = all bits the carry
  exchange,          // to <-> a
  push,              //
  pop,               //
  leave,             //
  jump,              // to a, an immediate if the target is in the code
  branch,            // to a if the condition holds
  call,              //
  ret,               // and drops `a` more bytes
  select,            // to = a if the condition holds
  set,               // to = the condition
  fill,              // rep stos: rcx elements of `to.bytes` from rax at rdi
  copy,              // rep movs: rcx elements of `to.bytes` from rsi to rdi
  vector_move,       // sixteen bytes
  vector_low,        // to = the low eight bytes of a; a vector's high lane becomes zero
  vector_low_keep,   // the same, the high lane stays
  vector_high,       // the high lane of to = a, or memory = the high lane of a
  vector_low32,      // four bytes
  vector_zero,       //
  vector_pair_low,   // to = low lanes of a and b
  vector_pair_high,  // to = high lanes of a and b
  vector_insert,     // lane `condition` of to = b, the other of a
  stop,              // a system call, a trap: nothing after it can be followed
};

inline constexpr std::uint8_t kNoRegister = 0xff;
inline constexpr std::uint8_t kRax = 0, kRcx = 1, kRdx = 2, kRbx = 3, kRsp = 4, kRbp = 5, kRsi = 6, kRdi = 7;
inline constexpr std::uint8_t kAlwaysUnknown = 16;  // a condition that no flag tells

struct Operand {
  enum class Place : std::uint8_t { none, general, vector, immediate, memory };
  Place place;
  std::uint8_t bytes;
  std::uint8_t reg;    // the register, or the base of an address
  std::uint8_t index;  // of an address
  std::uint8_t scale;
  bool high_byte;      // ah, ch, dh, bh
  bool thread_local_;  // relative to fs
  bool opaque;         // relative to gs: nobody knows
  std::int64_t value;  // the immediate, or the displacement; relative to the instruction becomes absolute
};

struct Op {
  Kind kind;
  std::uint8_t condition;  // as encoded in branches, 0..15; or kAlwaysUnknown
  std::uint8_t length;
  bool writes_flags;
  std::uint16_t writes_general;  // of `forget`: registers whose value is lost
  std::uint16_t writes_vector;
  std::uint16_t keeps_general;   // of `forget`: whole registers that are read, where memory or another kind of register is written
  Operand to, a, b;
};
static_assert(sizeof(Operand) == 16 && sizeof(Op) <= 64, "an operation fits a cache line");

/// Decodes the instruction at `pc`, whose first bytes are `bytes` (`available` of them can be read). False if they are none.
/// Pure; runs inside malloc. Decoding by Zydis, about 1800 instructions.
bool lift(std::uintptr_t pc, const std::uint8_t* bytes, unsigned available, Op& op) noexcept;

/// The same for the most frequent instructions, of which 16 bytes can be read, in about 100 instructions. False: not one of these.
bool lift_plain(std::uintptr_t pc, const std::uint8_t* bytes, Op& op) noexcept;

}  // namespace mortise::affinity
