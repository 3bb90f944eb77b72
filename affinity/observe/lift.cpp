#include "affinity/observe/code.hpp"

#include "affinity/observe/decode.hpp"

namespace mortise::affinity {
namespace {

using Place = Operand::Place;

std::uint8_t general_of(ZydisRegister reg) {
  const int number = general_register(reg);
  return number < 0 ? kNoRegister : static_cast<std::uint8_t>(number);
}

std::uint8_t vector_of(ZydisRegister reg) {
  if (reg >= ZYDIS_REGISTER_XMM0 && reg <= ZYDIS_REGISTER_XMM15) return static_cast<std::uint8_t>(reg - ZYDIS_REGISTER_XMM0);
  if (reg >= ZYDIS_REGISTER_YMM0 && reg <= ZYDIS_REGISTER_YMM15) return static_cast<std::uint8_t>(reg - ZYDIS_REGISTER_YMM0);
  return kNoRegister;
}

Operand memory_of(const ZydisDecodedOperand& o, std::uintptr_t next) {
  Operand r{Place::memory, static_cast<std::uint8_t>(o.size / 8), kNoRegister, kNoRegister, o.mem.scale, false, false, false,
            o.mem.disp.value};
  if (o.mem.base == ZYDIS_REGISTER_RIP)
    r.value += static_cast<std::int64_t>(next);
  else if (o.mem.base != ZYDIS_REGISTER_NONE)
    r.reg = general_of(o.mem.base);
  if (o.mem.index != ZYDIS_REGISTER_NONE) r.index = general_of(o.mem.index);
  r.thread_local_ = o.mem.segment == ZYDIS_REGISTER_FS;
  const auto width = [](ZydisRegister reg) { return ZydisRegisterGetWidth(ZYDIS_MACHINE_MODE_LONG_64, reg); };
  r.opaque = o.mem.segment == ZYDIS_REGISTER_GS || (o.mem.base != ZYDIS_REGISTER_NONE && width(o.mem.base) != 64) ||
             (o.mem.index != ZYDIS_REGISTER_NONE && r.index == kNoRegister);
  return r;
}

Operand operand_of(const ZydisDecodedOperand& o, std::uintptr_t next) {
  const auto bytes = static_cast<std::uint8_t>(o.size / 8);
  switch (o.type) {
    case ZYDIS_OPERAND_TYPE_REGISTER: {
      const bool high = o.reg.value >= ZYDIS_REGISTER_AH && o.reg.value <= ZYDIS_REGISTER_BH;
      if (const std::uint8_t g = general_of(o.reg.value); g != kNoRegister)
        return {Place::general, bytes, g, kNoRegister, 0, high, false, false, 0};
      if (const std::uint8_t v = vector_of(o.reg.value); v != kNoRegister)
        return {Place::vector, bytes, v, kNoRegister, 0, false, false, false, 0};
      return {};
    }
    case ZYDIS_OPERAND_TYPE_IMMEDIATE: {
      std::int64_t value = o.imm.value.s;
      if (o.imm.is_relative) value += static_cast<std::int64_t>(next);
      return {Place::immediate, bytes, kNoRegister, kNoRegister, 0, false, false, false, value};
    }
    case ZYDIS_OPERAND_TYPE_MEMORY: return memory_of(o, next);
    default: return {};
  }
}

Kind vector_kind_of(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_MOVAPS: case ZYDIS_MNEMONIC_MOVUPS: case ZYDIS_MNEMONIC_MOVAPD: case ZYDIS_MNEMONIC_MOVUPD:
    case ZYDIS_MNEMONIC_MOVDQA: case ZYDIS_MNEMONIC_MOVDQU: case ZYDIS_MNEMONIC_LDDQU: case ZYDIS_MNEMONIC_VMOVAPS:
    case ZYDIS_MNEMONIC_VMOVUPS: case ZYDIS_MNEMONIC_VMOVAPD: case ZYDIS_MNEMONIC_VMOVUPD: case ZYDIS_MNEMONIC_VMOVDQA:
    case ZYDIS_MNEMONIC_VMOVDQU: return Kind::vector_move;
    case ZYDIS_MNEMONIC_MOVQ: case ZYDIS_MNEMONIC_VMOVQ: return Kind::vector_low;
    case ZYDIS_MNEMONIC_MOVD: case ZYDIS_MNEMONIC_VMOVD: return Kind::vector_low32;
    case ZYDIS_MNEMONIC_MOVSD: case ZYDIS_MNEMONIC_MOVLPS: case ZYDIS_MNEMONIC_MOVLPD: return Kind::vector_low_keep;
    case ZYDIS_MNEMONIC_MOVHPS: case ZYDIS_MNEMONIC_MOVHPD: return Kind::vector_high;
    case ZYDIS_MNEMONIC_PUNPCKLQDQ: case ZYDIS_MNEMONIC_UNPCKLPD: case ZYDIS_MNEMONIC_VPUNPCKLQDQ: case ZYDIS_MNEMONIC_VUNPCKLPD:
    case ZYDIS_MNEMONIC_MOVLHPS: return Kind::vector_pair_low;
    case ZYDIS_MNEMONIC_PUNPCKHQDQ: case ZYDIS_MNEMONIC_UNPCKHPD: case ZYDIS_MNEMONIC_VPUNPCKHQDQ: return Kind::vector_pair_high;
    case ZYDIS_MNEMONIC_PINSRQ: case ZYDIS_MNEMONIC_VPINSRQ: return Kind::vector_insert;
    case ZYDIS_MNEMONIC_PXOR: case ZYDIS_MNEMONIC_XORPS: case ZYDIS_MNEMONIC_XORPD: case ZYDIS_MNEMONIC_VPXOR:
    case ZYDIS_MNEMONIC_VXORPS: case ZYDIS_MNEMONIC_VXORPD: return Kind::vector_zero;
    default: return Kind::forget;
  }
}

Kind kind_of(const ZydisDecodedInstruction& i) {
  switch (i.mnemonic) {
    case ZYDIS_MNEMONIC_NOP: case ZYDIS_MNEMONIC_ENDBR64: case ZYDIS_MNEMONIC_PREFETCHT0: case ZYDIS_MNEMONIC_PREFETCHT1:
    case ZYDIS_MNEMONIC_PREFETCHT2: case ZYDIS_MNEMONIC_PREFETCHNTA: case ZYDIS_MNEMONIC_PREFETCHW:
    case ZYDIS_MNEMONIC_VZEROUPPER: case ZYDIS_MNEMONIC_PAUSE: case ZYDIS_MNEMONIC_MFENCE: case ZYDIS_MNEMONIC_LFENCE:
    case ZYDIS_MNEMONIC_SFENCE: return Kind::nothing;
    case ZYDIS_MNEMONIC_MOV: case ZYDIS_MNEMONIC_MOVZX: return Kind::move;
    case ZYDIS_MNEMONIC_MOVSX: case ZYDIS_MNEMONIC_MOVSXD: case ZYDIS_MNEMONIC_CDQE: case ZYDIS_MNEMONIC_CWDE: return Kind::move_signed;
    case ZYDIS_MNEMONIC_LEA: return Kind::address;
    case ZYDIS_MNEMONIC_ADD: return Kind::add;
    case ZYDIS_MNEMONIC_SUB: return Kind::subtract;
    case ZYDIS_MNEMONIC_AND: return Kind::bit_and;
    case ZYDIS_MNEMONIC_OR: return Kind::bit_or;
    case ZYDIS_MNEMONIC_XOR: return Kind::bit_xor;
    case ZYDIS_MNEMONIC_CMP: return Kind::compare;
    case ZYDIS_MNEMONIC_TEST: return Kind::test;
    case ZYDIS_MNEMONIC_INC: return Kind::increment;
    case ZYDIS_MNEMONIC_DEC: return Kind::decrement;
    case ZYDIS_MNEMONIC_NEG: return Kind::negate;
    case ZYDIS_MNEMONIC_NOT: return Kind::complement;
    case ZYDIS_MNEMONIC_SHL: return Kind::shift_left;
    case ZYDIS_MNEMONIC_SHR: return Kind::shift_right;
    case ZYDIS_MNEMONIC_SAR: return Kind::shift_right_signed;
    case ZYDIS_MNEMONIC_IMUL: return i.operand_count_visible >= 2 ? Kind::multiply : Kind::forget;
    case ZYDIS_MNEMONIC_MUL: return Kind::multiply_wide;
    case ZYDIS_MNEMONIC_DIV: return Kind::divide;
    case ZYDIS_MNEMONIC_CDQ: case ZYDIS_MNEMONIC_CQO: return Kind::sign_fill;
    case ZYDIS_MNEMONIC_SBB: return Kind::borrow_fill;
    case ZYDIS_MNEMONIC_XCHG: return Kind::exchange;
    case ZYDIS_MNEMONIC_PUSH: return Kind::push;
    case ZYDIS_MNEMONIC_POP: return Kind::pop;
    case ZYDIS_MNEMONIC_LEAVE: return Kind::leave;
    case ZYDIS_MNEMONIC_JMP: return Kind::jump;
    case ZYDIS_MNEMONIC_CALL: return Kind::call;
    case ZYDIS_MNEMONIC_RET: return Kind::ret;
    case ZYDIS_MNEMONIC_STOSB: case ZYDIS_MNEMONIC_STOSD: case ZYDIS_MNEMONIC_STOSQ: return Kind::fill;
    case ZYDIS_MNEMONIC_SYSCALL: case ZYDIS_MNEMONIC_INT: case ZYDIS_MNEMONIC_INT3: case ZYDIS_MNEMONIC_UD2:
    case ZYDIS_MNEMONIC_HLT: return Kind::stop;
    case ZYDIS_MNEMONIC_MOVSB: case ZYDIS_MNEMONIC_MOVSQ: return Kind::copy;
    default: break;
  }
  switch (i.meta.category) {
    case ZYDIS_CATEGORY_COND_BR: return Kind::branch;
    case ZYDIS_CATEGORY_CMOV: return Kind::select;
    case ZYDIS_CATEGORY_SETCC: return Kind::set;
    default: return vector_kind_of(i.mnemonic);
  }
}

// What an operation writes and this form does not describe is lost.
void forget(const Instruction& d, std::uintptr_t next, Op& op) {
  op.kind = Kind::forget;
  op.to = {};
  std::uint16_t reads = 0;
  bool keeps = false;
  for (unsigned n = 0; n < d.info.operand_count; ++n) {
    const ZydisDecodedOperand& o = d.operand[n];
    const Operand r = operand_of(o, next);
    const auto bit = static_cast<std::uint16_t>(r.place == Place::general ? 1u << r.reg : 0u);
    if (o.actions & ZYDIS_OPERAND_ACTION_MASK_READ && r.bytes == 8) reads |= bit;
    if (!(o.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)) continue;
    op.writes_general |= bit;
    if (r.place == Place::vector) op.writes_vector |= static_cast<std::uint16_t>(1u << r.reg);
    else if (r.place == Place::memory) op.to = r;
    keeps |= r.place != Place::general && o.visibility != ZYDIS_OPERAND_VISIBILITY_HIDDEN;
  }
  op.keeps_general = keeps ? reads : 0;
  op.writes_flags = true;
}

bool same_register(const Operand& a, const Operand& b) { return a.place == b.place && a.place != Place::memory && a.reg == b.reg; }

// Operands in the roles of the form: x86 names the target among the sources, AVX does not.
void assign(const Instruction& d, std::uintptr_t next, Op& op) {
  const auto at = [&](unsigned n) { return n < d.info.operand_count ? operand_of(d.operand[n], next) : Operand{}; };
  const unsigned visible = d.info.operand_count_visible;
  switch (op.kind) {
    case Kind::move: case Kind::address: case Kind::vector_move: case Kind::vector_low: case Kind::vector_low_keep:
    case Kind::vector_low32: case Kind::exchange: case Kind::select:
      op.to = at(0), op.a = at(1);
      break;
    case Kind::move_signed: case Kind::sign_fill:  // cdqe and cqo name neither
      op.to = at(0), op.a = at(1);
      break;
    case Kind::compare: case Kind::test: op.a = at(0), op.b = at(1); break;
    case Kind::increment: case Kind::decrement: case Kind::negate: case Kind::complement: op.to = op.a = at(0); break;
    case Kind::push: case Kind::jump: case Kind::branch: case Kind::call: case Kind::multiply_wide: case Kind::divide:
      op.a = at(0);
      break;
    case Kind::ret: op.a = visible ? at(0) : Operand{}; break;
    case Kind::pop: case Kind::set: op.to = at(0); break;
    case Kind::fill: case Kind::copy: op.to = at(0); break;
    case Kind::vector_high: op.to = at(0), op.a = visible == 3 ? Operand{} : at(1); break;
    case Kind::vector_insert:
      op.to = at(0), op.a = visible == 4 ? at(1) : op.to, op.b = at(visible - 2);
      op.condition = static_cast<std::uint8_t>(at(visible - 1).value & 1);
      break;
    default: op.to = at(0), op.a = visible >= 3 ? at(1) : op.to, op.b = at(visible >= 3 ? 2 : 1); break;
  }
}

// Forms that a kind does not cover.
bool is_exact(const Instruction& d, const Op& op) {
  if (d.info.attributes & ZYDIS_ATTRIB_HAS_LOCK) return false;
  switch (op.kind) {
    case Kind::move: case Kind::move_signed: return op.to.place != Place::none && op.a.place != Place::none;  // segments
    case Kind::borrow_fill: return same_register(op.a, op.b);
    case Kind::fill: case Kind::copy: return (d.info.attributes & ZYDIS_ATTRIB_HAS_REP) != 0;
    case Kind::vector_zero: return same_register(op.a, op.b) && op.a.place == Place::vector;
    case Kind::vector_move: return op.to.place != Place::none && op.a.place != Place::none && op.to.bytes <= 16 && op.a.bytes <= 16;
    case Kind::vector_low: case Kind::vector_low32: case Kind::vector_low_keep:  // MMX registers are none
      return op.to.place != Place::none && op.a.place != Place::none;
    case Kind::vector_high:
      return op.a.place != Place::none && (op.to.place == Place::memory || op.a.place == Place::memory);
    case Kind::vector_pair_low: case Kind::vector_pair_high:
      return op.to.bytes == 16 && op.a.place == Place::vector && op.b.place == Place::vector;
    case Kind::divide: case Kind::multiply_wide: return op.a.bytes == 8 || op.a.bytes == 4;
    case Kind::push: case Kind::pop: return !(d.info.attributes & ZYDIS_ATTRIB_HAS_OPERANDSIZE);  // two bytes
    default: return true;
  }
}

}  // namespace

bool lift(std::uintptr_t pc, const std::uint8_t* bytes, unsigned available, Op& op) noexcept {
  Instruction d;
  if (!decode(bytes, available, pc, d)) return false;
  const std::uintptr_t next = d.next();
  op = {};
  op.kind = kind_of(d.info);
  op.length = d.info.length;
  op.condition = d.info.opcode & 15;
  if (op.kind == Kind::branch && d.info.opcode >= 0xe0 && d.info.opcode <= 0xe3 &&
      d.info.opcode_map == ZYDIS_OPCODE_MAP_DEFAULT) {
    op.condition = kAlwaysUnknown;  // loop and jrcxz look at rcx
    if (d.info.opcode != 0xe3) op.writes_general = 1u << kRcx;
  }
  if (op.kind != Kind::forget && op.kind != Kind::nothing && op.kind != Kind::stop) assign(d, next, op);
  if (d.info.mnemonic == ZYDIS_MNEMONIC_MOVSD && op.a.place == Place::memory) {
    op.kind = op.to.place == Place::vector ? Kind::vector_low : Kind::copy;  // loads clear the high lane; or the string move
  }
  if (op.kind == Kind::forget || !is_exact(d, op)) forget(d, next, op);
  return true;
}

}  // namespace mortise::affinity
