// One machine instruction at a time: a thin front over Zydis, which needs neither memory nor locale.
#pragma once

#include <Zydis/Zydis.h>

#include <cstddef>
#include <cstdint>

namespace mortise::affinity {

struct Instruction {
  ZydisDecodedInstruction info;
  ZydisDecodedOperand operand[ZYDIS_MAX_OPERAND_COUNT];
  std::uintptr_t at;

  std::uintptr_t next() const noexcept { return at + info.length; }
  ZydisMnemonic mnemonic() const noexcept { return info.mnemonic; }
  ZydisInstructionCategory category() const noexcept { return info.meta.category; }
  /// Where a direct jump or call leads; 0 for an indirect one.
  std::uintptr_t target() const noexcept {
    const ZydisDecodedOperand& o = operand[0];
    return o.type == ZYDIS_OPERAND_TYPE_IMMEDIATE && o.imm.is_relative ? next() + static_cast<std::uintptr_t>(o.imm.value.s) : 0;
  }
};

/// Number of the 64-bit register that `r` is or is a part of: rax rcx rdx rbx rsp rbp rsi rdi r8 ... r15; -1 for none of these.
inline int general_register(ZydisRegister r) noexcept {
  const ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, r);
  return whole >= ZYDIS_REGISTER_RAX && whole <= ZYDIS_REGISTER_R15 ? whole - ZYDIS_REGISTER_RAX : -1;
}

/// Decodes what lies at `bytes`, which is readable for `length`, as if at address `at`. False for what is no instruction.
/// O(1), about 1500 instructions.
inline bool decode(const void* bytes, std::size_t length, std::uintptr_t at, Instruction& out) noexcept {
  ZydisDecoder decoder;
  if (!ZYAN_SUCCESS(ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64))) return false;
  out.at = at;
  return ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes, length, &out.info, out.operand));
}

}  // namespace mortise::affinity
