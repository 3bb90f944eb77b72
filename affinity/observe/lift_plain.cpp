// The instructions that most code is made of, without the decoder: one prefix at most and REX, one table's worth of opcodes. What is not
// among them, or looks odd, is left to Zydis, which takes twenty times as long. tests/affinity/lift.cpp holds both against each other.
//
//   [64 | 66 | f3] [REX] opcode | 0f opcode  ModRM [SIB] [disp8 | disp32] [imm8 | imm32]
#include <string.h>

#include "affinity/observe/code.hpp"

namespace mortise::affinity {
namespace {

using Place = Operand::Place;

constexpr unsigned kRel32 = 4, kByte = 1, kLane = 8, kVector = 16;

class Plain {
 public:
  Plain(std::uintptr_t pc, const std::uint8_t* bytes, Op& op) noexcept : pc_(pc), first_(bytes), at_(bytes), op_(op) {
    if (*at_ == kOfThread || *at_ == kShort || *at_ == kRepeated || *at_ == kScalar) prefix_ = *at_++;
    if ((*at_ & 0xf0) == 0x40) rex_ = *at_++;
    bytes_ = rex_ & 8 ? 8 : 4;
  }

  bool run() noexcept {
    const std::uint8_t opcode = *at_++;
    op_.condition = opcode & 15;
    if (prefix_ == kScalar) return opcode == 0x0f && scalar();
    if (prefix_ == kShort || prefix_ == kRepeated) return opcode == 0x0f && prefixed();
    if (prefix_) return of_thread(opcode);
    if (opcode == 0x0f) return two_bytes();
    if (opcode >= 0x50 && opcode < 0x60) return push_or_pop(opcode);
    if (opcode >= 0x70 && opcode < 0x80) return relative(Kind::branch, kByte);
    if (opcode >= 0xb8 && opcode < 0xc0) return load_immediate(opcode);
    if (opcode < 0x40) return arithmetic(opcode);
    switch (opcode) {
      case 0x6a: return !rex_ && pushes_number();
      case 0x80: bytes_ = kByte; return group(kByte);
      case 0x84: return modrm_bytes() && compares(Kind::test, rm_, reg());
      case 0x88: return modrm_bytes() && ends(Kind::move, rm_, reg());
      case 0x8a: return modrm_bytes() && ends(Kind::move, reg(), rm_);
      case 0x90: return !rex_ && ends(Kind::nothing, {}, {});
      case 0xa8: return !rex_ && compares(Kind::test, general(kRax, kByte), immediate(kByte));
      case 0xa9: return compares(Kind::test, general(kRax, bytes_), immediate(4));
      case 0x98: return rex_ == 0x48 && ends(Kind::move_signed, general(kRax, 8), general(kRax, 4));
      case 0xc0: return modrm_bytes(true) && shifts(immediate_unsigned());
      case 0xc1: return modrm(bytes_) && shifts(immediate_unsigned());
      case 0xc6: return modrm_bytes(true) && extension() == 0 && ends(Kind::move, rm_, immediate(kByte));
      case 0xd0: return modrm_bytes(true) && shifts(one());
      case 0xd1: return modrm(bytes_) && shifts(one());
      case 0xd2: return modrm_bytes(true) && shifts(general(kRcx, kByte));
      case 0xd3: return modrm(bytes_) && shifts(general(kRcx, kByte));
      case 0xf6: return modrm_bytes(true) && extension() == 0 && compares(Kind::test, rm_, immediate(kByte));
      case 0xf7: return modrm(bytes_) && of_one();
      case 0x63: return rex_ & 8 && modrm(4) && ends(Kind::move_signed, reg(), rm_);
      case 0x83: return group(kByte);
      case 0x81: return group(4);
      case 0x85: return modrm(bytes_) && compares(Kind::test, rm_, reg());
      case 0x89: return modrm(bytes_) && ends(Kind::move, rm_, reg());
      case 0x8b: return modrm(bytes_) && ends(Kind::move, reg(), rm_);
      case 0x8d: return modrm(8) && rm_.place == Place::memory && ends(Kind::address, reg(), rm_);
      case 0xc3: return !rex_ && ends(Kind::ret, {}, {});
      case 0xc7: return modrm(bytes_) && extension() == 0 && ends(Kind::move, rm_, immediate(4));
      case 0xe8: return relative(Kind::call, kRel32);
      case 0xe9: return relative(Kind::jump, kRel32);
      case 0xeb: return relative(Kind::jump, kByte);
      case 0xff: return indirect();
      default: return false;
    }
  }

 private:
  static constexpr std::uint8_t kOfThread = 0x64, kShort = 0x66, kRepeated = 0xf3, kScalar = 0xf2;

  /// 0f with a prefix that makes it another instruction: vectors, endbr64, and nothing at all.
  bool prefixed() noexcept {
    const std::uint8_t opcode = *at_++;
    op_.condition = opcode & 15;
    const bool is_short = prefix_ == kShort;
    switch (opcode) {
      case 0x1e: return !is_short && !rex_ && *at_++ == 0xfa && ends(Kind::nothing, {}, {});
      case 0x1f: return is_short && modrm(bytes_) && extension() == 0 && ends(Kind::nothing, {}, {});
      case 0x10: case 0x28: return is_short && vector_modrm(kVector) && ends(Kind::vector_move, vector(), rm_);
      case 0x11: case 0x29: return is_short && vector_modrm(kVector) && ends(Kind::vector_move, rm_, vector());
      case 0x6c: return is_short && vector_modrm(kLane) && pairs();
      case 0x6e: return is_short && modrm(bytes_) && ends(low_kind(), vector(), rm_);
      case 0x6f: return vector_modrm(kVector) && ends(Kind::vector_move, vector(), rm_);
      case 0x7e:
        if (is_short) return modrm(bytes_) && ends(low_kind(), rm_, vector(bytes_));
        return vector_modrm(kLane) && ends(Kind::vector_low, vector(), rm_);
      case 0x7f: return vector_modrm(kVector) && ends(Kind::vector_move, rm_, vector());
      case 0xd6: return is_short && vector_modrm(kLane) && rm_.place == Place::memory && ends(Kind::vector_low, rm_, vector(kLane));
      case 0xef: return is_short && vector_modrm(kVector) && clears();
      default: return false;
    }
  }
  /// A double, alone: from memory it clears the other lane.
  bool scalar() noexcept {
    const std::uint8_t opcode = *at_++;
    op_.condition = opcode & 15;
    if ((opcode != 0x10 && opcode != 0x11) || !vector_modrm(kLane)) return false;
    if (opcode == 0x11) return rm_.place == Place::memory && ends(Kind::vector_low_keep, rm_, vector(kLane));
    return rm_.place == Place::memory && ends(Kind::vector_low, vector(), rm_);
  }
  Kind low_kind() const noexcept { return rex_ & 8 ? Kind::vector_low : Kind::vector_low32; }
  /// The canary against overflowing stacks, and the like.
  bool of_thread(std::uint8_t opcode) noexcept {
    if (opcode != 0x2b && opcode != 0x3b && opcode != 0x8b && opcode != 0x89) return false;
    if (!modrm(bytes_) || rm_.place != Place::memory || is_relative_) return false;
    rm_.thread_local_ = true;
    if (opcode == 0x8b) return ends(Kind::move, reg(), rm_);
    if (opcode == 0x89) return ends(Kind::move, rm_, reg());
    return combines(opcode == 0x2b ? Kind::subtract : Kind::compare, reg(), rm_);
  }
  bool two_bytes() noexcept {
    const std::uint8_t opcode = *at_++;
    op_.condition = opcode & 15;
    if (opcode >= 0x80 && opcode < 0x90) return relative(Kind::branch, kRel32);
    if (opcode >= 0x40 && opcode < 0x50) return modrm(bytes_) && ends(Kind::select, reg(), rm_);
    if (opcode >= 0x90 && opcode < 0xa0) return modrm_bytes(true) && ends(Kind::set, rm_, {});
    switch (opcode) {
      case 0x10: case 0x28: return vector_modrm(kVector) && ends(Kind::vector_move, vector(), rm_);
      case 0x11: case 0x29: return vector_modrm(kVector) && ends(Kind::vector_move, rm_, vector());
      case 0x57: return vector_modrm(kVector) && clears();
      case 0xbe: return modrm(kByte) && is_low(rm_) && ends(Kind::move_signed, reg(), rm_);
      case 0xbf: return modrm(2) && ends(Kind::move_signed, reg(), rm_);
      case 0x1f: return modrm(bytes_) && extension() == 0 && ends(Kind::nothing, {}, {});
      case 0xaf: return modrm(bytes_) && combines(Kind::multiply, reg(), rm_);
      case 0xb6: return modrm(kByte) && is_low(rm_) && ends(Kind::move, reg(), rm_);
      case 0xb7: return modrm(2) && ends(Kind::move, reg(), rm_);
      default: return false;
    }
  }
  bool push_or_pop(std::uint8_t opcode) noexcept {
    const Operand r = general((opcode & 7) | (rex_ & 1) << 3, 8);
    if (rex_ & 8) return false;
    return opcode < 0x58 ? takes(Kind::push, r) : ends(Kind::pop, r, {});
  }
  bool load_immediate(std::uint8_t opcode) noexcept {
    const Operand to = general((opcode & 7) | (rex_ & 1) << 3, bytes_);
    Operand n = {Place::immediate, static_cast<std::uint8_t>(bytes_), kNoRegister, kNoRegister, 0, false, false, false, 0};
    std::int32_t narrow;
    memcpy(bytes_ == 8 ? static_cast<void*>(&n.value) : &narrow, at_, bytes_);
    if (bytes_ != 8) n.value = narrow;
    at_ += bytes_;
    return ends(Kind::move, to, n);
  }
  bool pushes_number() noexcept {
    Operand n = immediate(kByte);
    return takes(Kind::push, n);
  }
  bool shifts(Operand by) noexcept {
    const unsigned number = extension();
    const Kind kind = number == 4 ? Kind::shift_left : number == 5 ? Kind::shift_right : Kind::shift_right_signed;
    return (number == 4 || number == 5 || number == 7) && combines(kind, rm_, by);
  }
  bool of_one() noexcept {
    const unsigned number = extension();
    if (number == 0) return compares(Kind::test, rm_, immediate(4));
    if (number == 4 || number == 6) return takes(number == 4 ? Kind::multiply_wide : Kind::divide, rm_);
    return (number == 2 || number == 3) && repeats(number == 2 ? Kind::complement : Kind::negate, rm_);
  }
  /// Exclusive or with itself.
  bool clears() noexcept {
    if (rm_.place != Place::vector || rm_.reg != vector().reg) return false;
    op_.b = rm_;
    return ends(Kind::vector_zero, vector(), vector());
  }
  bool pairs() noexcept { return rm_.place == Place::vector && (op_.b = rm_, ends(Kind::vector_pair_low, vector(), vector())); }
  static Kind kind_of(unsigned number) noexcept {
    constexpr Kind kKind[8] = {Kind::add,     Kind::bit_or,   Kind::stop,    Kind::stop,  // adc, sbb
                               Kind::bit_and, Kind::subtract, Kind::bit_xor, Kind::compare};
    return kKind[number];
  }
  bool arithmetic(std::uint8_t opcode) noexcept {
    const Kind kind = kind_of(opcode >> 3);
    if (kind == Kind::stop || (opcode & 7) > 5) return false;
    if (!(opcode & 1)) bytes_ = kByte;
    if (opcode & 4) return (bytes_ != kByte || !rex_) && combines(kind, general(kRax, bytes_), immediate(bytes_ == kByte ? kByte : 4));
    if (bytes_ == kByte ? !modrm_bytes() : !modrm(bytes_)) return false;
    return opcode & 2 ? combines(kind, reg(), rm_) : combines(kind, rm_, reg());
  }
  bool group(unsigned immediate_bytes) noexcept {
    if (bytes_ == kByte ? !modrm_bytes(true) : !modrm(bytes_)) return false;
    const Kind kind = kind_of(extension());
    return kind != Kind::stop && combines(kind, rm_, immediate(immediate_bytes));
  }
  bool indirect() noexcept {
    const unsigned number = *at_ >> 3 & 7;
    if (!modrm(number < 2 ? bytes_ : 8u)) return false;
    if (number < 2) return repeats(number ? Kind::decrement : Kind::increment, rm_);
    if (rex_ & 8) return false;
    return number == 2 ? takes(Kind::call, rm_) : number == 4 ? takes(Kind::jump, rm_) : number == 6 && takes(Kind::push, rm_);
  }

  // -- operands
  static Operand general(unsigned number, unsigned bytes) noexcept {
    return {Place::general, static_cast<std::uint8_t>(bytes), static_cast<std::uint8_t>(number), kNoRegister, 0, false, false, false, 0};
  }
  Operand reg() const noexcept { return general((modrm_ >> 3 & 7) | (rex_ & 4) << 1, bytes_); }
  Operand vector(unsigned bytes = kVector) const noexcept {
    Operand v = general((modrm_ >> 3 & 7) | (rex_ & 4) << 1, bytes);
    v.place = Place::vector;
    return v;
  }
  unsigned extension() const noexcept { return modrm_ >> 3 & 7; }
  /// Not ah, ch, dh or bh, which four numbers mean where there is no REX.
  bool is_low(const Operand& o) const noexcept { return o.place != Place::general || rex_ || o.reg < 4; }
  /// Of bytes; the other operand is a register too, or a number is meant.
  bool modrm_bytes(bool is_extended = false) noexcept {
    bytes_ = kByte;
    return modrm(kByte) && is_low(rm_) && (is_extended || is_low(reg()));
  }
  /// In which a register is one of the vectors, of which a part may be meant.
  bool vector_modrm(unsigned bytes) noexcept {
    if (!modrm(bytes)) return false;
    if (rm_.place == Place::general) rm_.place = Place::vector;
    return true;
  }
  static Operand one() noexcept { return {Place::immediate, kByte, kNoRegister, kNoRegister, 0, false, false, false, 1}; }
  Operand immediate_unsigned() noexcept {
    Operand n = one();
    n.value = *at_++;
    return n;
  }
  std::int64_t number(unsigned bytes) noexcept {
    std::int32_t wide = 0;
    memcpy(&wide, at_, 4);
    const std::int64_t n = bytes == kByte ? static_cast<std::int8_t>(*at_) : wide;
    at_ += bytes;
    return n;
  }
  Operand immediate(unsigned bytes) noexcept {
    const std::int64_t n = number(bytes);
    return {Place::immediate, static_cast<std::uint8_t>(bytes), kNoRegister, kNoRegister, 0, false, false, false, n};
  }
  bool modrm(unsigned bytes) noexcept {
    modrm_ = *at_++;
    const unsigned mod = modrm_ >> 6, low = modrm_ & 7;
    if (mod == 3) return rm_ = general(low | (rex_ & 1) << 3, bytes), true;
    rm_ = {Place::memory, static_cast<std::uint8_t>(bytes), kNoRegister, kNoRegister, 0, false, false, false, 0};
    unsigned base = low;
    if (low == 4) {
      const std::uint8_t sib = *at_++;
      base = sib & 7;
      if (const unsigned index = (sib >> 3 & 7) | (rex_ & 2) << 2; index != 4) {
        rm_.index = static_cast<std::uint8_t>(index);
        rm_.scale = static_cast<std::uint8_t>(1u << (sib >> 6));
      }
    }
    if (mod == 0 && base == 5) {
      is_relative_ = low == 5;
      rm_.value = number(4);
      return true;
    }
    rm_.reg = static_cast<std::uint8_t>(base | (rex_ & 1) << 3);
    if (mod) rm_.value = number(mod == 1 ? kByte : 4);
    return true;
  }

  // -- the end of the instruction, from which relative addresses count
  bool ends(Kind kind, Operand to, Operand a) noexcept {
    op_.kind = kind, op_.to = to, op_.a = a;
    op_.length = static_cast<std::uint8_t>(at_ - first_);
    if (is_relative_) follow(op_.to), follow(op_.a), follow(op_.b);
    return true;
  }
  void follow(Operand& o) const noexcept {
    if (o.place == Place::memory) o.value += static_cast<std::int64_t>(pc_ + op_.length);
  }
  bool takes(Kind kind, Operand a) noexcept { return ends(kind, {}, a); }
  bool repeats(Kind kind, Operand to) noexcept { return ends(kind, to, to); }
  bool compares(Kind kind, Operand a, Operand b) noexcept { return op_.b = b, ends(kind, {}, a); }
  bool combines(Kind kind, Operand to, Operand b) noexcept {
    if (kind == Kind::compare) return compares(kind, to, b);
    return op_.b = b, ends(kind, to, to);
  }
  bool relative(Kind kind, unsigned bytes) noexcept {
    if (rex_) return false;
    Operand a = immediate(bytes);
    a.value += static_cast<std::int64_t>(pc_ + static_cast<std::uintptr_t>(at_ - first_));
    return takes(kind, a);
  }

  std::uintptr_t pc_;
  const std::uint8_t *first_, *at_;
  Op& op_;
  Operand rm_ = {};
  std::uint8_t prefix_ = 0, rex_ = 0, modrm_ = 0;
  unsigned bytes_;
  bool is_relative_ = false;
};

}  // namespace

bool lift_plain(std::uintptr_t pc, const std::uint8_t* bytes, Op& op) noexcept {
  op = {};
  return Plain(pc, bytes, op).run();
}

}  // namespace mortise::affinity
