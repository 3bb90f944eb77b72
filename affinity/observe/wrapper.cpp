#include "affinity/observe/wrapper.hpp"

#include <string.h>

#include "affinity/observe/code.hpp"
#include "affinity/observe/wrapper_place.hpp"

namespace mortise::affinity {

namespace {

/// What a judge works with. Too large for the stack of a thread that happens to call malloc; there is one, under the analysis
/// lock.
struct Bench {
  static constexpr unsigned kWaysMax = 24, kSeenMax = 512;
  Instruction instruction;
  Place way[kWaysMax];
  std::uint64_t mark[kSeenMax];
};
constinit Bench bench{};

class Judge {
 public:
  Judge(const Module& m, const FrameRule& frame, Range code, WrapperRule rule) noexcept
      : module_(m), frame_(frame), code_(code), is_strict_(rule == WrapperRule::strict) {}

  WrapperVerdict run(std::uintptr_t start) noexcept {
    Place first{.pc = start};
    first.take(kRax, 0);
    if (frame_.from_rbp) {  // the frame address is rbp + offset; where it lies from the stack pointer is not written down,
      first.has_rbp = true; // so places below rbp get numbers of their own, far from those told from the stack pointer
      first.rbp = kRbpFrame;
    }
    add(first);
    while (waiting_ > 0) {
      Place p = way_[--waiting_];
      if (const auto v = follow(p); v != WrapperVerdict::wrapper) return v;
    }
    return returned_ ? WrapperVerdict::wrapper : WrapperVerdict::does_not_return_it;
  }

 private:
  static constexpr unsigned kInstructionsMax = 400;
  static constexpr unsigned kWaysMax = Bench::kWaysMax, kSeenMax = Bench::kSeenMax;
  static constexpr std::int32_t kRbpFrame = 1 << 24;
  static constexpr auto kGoOn = WrapperVerdict::wrapper;

  /// Another way, unless one that knows the same has been there.
  bool add(const Place& p) noexcept {
    const std::uint64_t mark = p.pc * 64 + p.slots * 8 + (p.holders * 0x9E3779B1u >> 29);
    for (unsigned i = 0; i < seen_; ++i)
      if (mark_[i] == mark) return true;
    if (seen_ == kSeenMax || waiting_ == kWaysMax) return false;
    mark_[seen_++] = mark;
    way_[waiting_++] = p;
    return true;
  }

  /// One way up to a return, an end, or a fork.
  WrapperVerdict follow(Place& p) noexcept {
    for (;;) {
      if (!code_.holds(p.pc)) return kGoOn;  // behind a call that does not return
      if (++instructions_ > kInstructionsMax) return WrapperVerdict::too_long;
      bool ends = false;
      WrapperVerdict v = kGoOn;
      if (const bool is_plain = code_.last - p.pc >= 16 && lift_plain(p.pc, reinterpret_cast<const std::uint8_t*>(p.pc), op_);
          !is_plain || !step_plain(p, ends, v)) {
        const std::size_t room = code_.last - p.pc < kInstructionBytesMax ? code_.last - p.pc : kInstructionBytesMax;
        if (!decode(reinterpret_cast<const void*>(p.pc), room, p.pc, i_)) return WrapperVerdict::not_readable;
        v = step(p, ends);
      }
      if (v != kGoOn || ends) return v;
    }
  }

  /// The same without the decoder, for what most code is made of. False: not one of these, nothing was done.
  bool step_plain(Place& p, bool& ends, WrapperVerdict& v) noexcept {
    const bool is_direct = op_.a.place == Operand::Place::immediate;
    const std::uintptr_t next = p.pc + op_.length, target = is_direct ? static_cast<std::uintptr_t>(op_.a.value) : 0;
    switch (op_.kind) {
      case Kind::branch: return v = fork(p, ends, target, next, op_.condition == 4, op_.condition == 5), true;
      case Kind::jump: return is_direct && (v = jump(p, ends, target), true);
      case Kind::call: return is_direct && (v = call(p, target, next), true);
      case Kind::ret: return v = leave(p, ends), true;
      case Kind::nothing: break;
      case Kind::move: {
        const int r = whole_of(op_.to), source = whole_of(op_.a);
        std::int32_t at;
        if (op_.to.place == Operand::Place::memory) {
          if (source >= 0 && p.holds(source)) return false;
          if (!p.frame_place(op_.to, at)) return !uses(p, op_.to) && (p.forget_flags(), p.pc = next, true);
          p.drop_slot(at), p.forget_flags();
        } else if (r >= 0 && source >= 0) {
          p.copy(r, source);
        } else if (r >= 0 && op_.a.bytes == 8 && p.frame_place(op_.a, at)) {
          p.load(r, at);
        } else {
          return forget(p, next);
        }
        break;
      }
      case Kind::push:
        if (whole_of(op_.a) < 0) return false;
        p.push(whole_of(op_.a));
        break;
      case Kind::pop: p.pop(whole_of(op_.to)); break;
      case Kind::add: case Kind::subtract:
        if (whole_of(op_.to) < 0 || op_.b.place != Operand::Place::immediate) return forget(p, next);
        p.shift(whole_of(op_.to), static_cast<std::int32_t>(op_.kind == Kind::add ? op_.b.value : -op_.b.value));
        break;
      case Kind::bit_and: case Kind::bit_or: case Kind::bit_xor: case Kind::increment: case Kind::decrement: case Kind::multiply:
        return forget(p, next);
      default: return false;
    }
    p.pc = next;
    return true;
  }

  /// A register gets what is not followed; of memory, and of the stack pointer, the decoder's way knows more.
  bool forget(Place& p, std::uintptr_t next) noexcept {
    if (op_.to.place != Operand::Place::general || op_.to.reg == kRsp) return false;
    p.forget(op_.to.reg);
    p.pc = next;
    return true;
  }
  static bool uses(const Place& p, const Operand& o) noexcept {
    return (o.reg != kNoRegister && p.holds(o.reg)) || (o.index != kNoRegister && p.holds(o.index));
  }

  WrapperVerdict step(Place& p, bool& ends) noexcept {
    switch (i_.category()) {
      case ZYDIS_CATEGORY_COND_BR:
        return fork(p, ends, i_.target(), i_.next(), i_.mnemonic() == ZYDIS_MNEMONIC_JZ, i_.mnemonic() == ZYDIS_MNEMONIC_JNZ);
      case ZYDIS_CATEGORY_UNCOND_BR: return jump(p, ends, i_.target());
      case ZYDIS_CATEGORY_CALL: return call(p, i_.target(), i_.next());
      case ZYDIS_CATEGORY_RET: return leave(p, ends);
      case ZYDIS_CATEGORY_INTERRUPT: ends = true; return kGoOn;
      default: break;
    }
    if (i_.mnemonic() == ZYDIS_MNEMONIC_UD2 || i_.mnemonic() == ZYDIS_MNEMONIC_HLT) {
      ends = true;
      return kGoOn;
    }
    p.pc = i_.next();
    return move(p);
  }

  // -- ways

  WrapperVerdict fork(Place& p, bool& ends, std::uintptr_t target, std::uintptr_t next, bool on_zero, bool on_other) noexcept {
    Place taken = p;
    taken.pc = target;
    p.pc = next;
    // Where the pointer is null there is no object: what a wrapper does then is its own affair.
    if ((p.null_is_zero && on_zero) || (p.null_is_other && on_other)) return kGoOn;
    if ((p.null_is_zero && on_other) || (p.null_is_other && on_zero)) {
      ends = true;
      return add(taken) ? kGoOn : WrapperVerdict::too_long;
    }
    return add(taken) ? kGoOn : WrapperVerdict::too_long;
  }

  /// Within the function or to its cold part; or, with the frame gone, to another function in this one's place.
  WrapperVerdict jump(Place& p, bool& ends, std::uintptr_t target) noexcept {
    if (target && frame_.function.holds(target)) {
      p.pc = target;
      return kGoOn;
    }
    const bool frame_is_gone = !frame_.from_rbp ? p.sp == frame_.cfa_offset - 8 : p.sp == kRbpFrame + frame_.cfa_offset - 8;
    if (target && code_.holds(target) && !frame_is_gone) {
      p.pc = target;
      return kGoOn;
    }
    ends = true;
    if (!frame_is_gone) return WrapperVerdict::too_long;  // a table of jumps
    if (p.holds(kRdi) && fills(target)) return note_return(p, p.offset[kRdi]);
    return p.holders & kArguments ? WrapperVerdict::passes_it : WrapperVerdict::does_not_return_it;
  }

  WrapperVerdict call(Place& p, std::uintptr_t target, std::uintptr_t next) noexcept {
    const bool passes = p.holders & kArguments;
    const bool is_filled = passes && p.holds(kRdi) && fills(target);
    if (passes && is_strict_ && !is_filled) return WrapperVerdict::passes_it;
    const std::int32_t filled_at = p.offset[kRdi];
    p.holders &= ~kCallerSaved;
    if (is_filled) p.take(kRax, filled_at);
    p.null_is_zero = p.null_is_other = false;
    p.pc = next;
    return kGoOn;
  }

  WrapperVerdict leave(Place& p, bool& ends) noexcept {
    ends = true;
    return p.holds(kRax) ? note_return(p, p.offset[kRax]) : WrapperVerdict::does_not_return_it;
  }
  WrapperVerdict note_return(const Place& p, std::int32_t offset) noexcept {
    if (is_strict_ && offset < p.written) return WrapperVerdict::writes_through;
    returned_ = true;
    return kGoOn;
  }

  /// True for a call, direct or through the procedure linkage table, of a function that fills memory and returns its address.
  bool fills(std::uintptr_t target) const noexcept {
    const char* name = nullptr;
    if (!target) {
      const auto& o = i_.operand[0];
      if (o.type == ZYDIS_OPERAND_TYPE_MEMORY && o.mem.base == ZYDIS_REGISTER_RIP)
        name = name_of_slot(module_, i_.next() + static_cast<std::uintptr_t>(o.mem.disp.value));
    } else if (code_.holds(target)) {
      Instruction stub;
      for (unsigned hops = 0; hops < 2 && code_.holds(target); ++hops, target = stub.next()) {
        const std::size_t room = code_.last - target < kInstructionBytesMax ? code_.last - target : kInstructionBytesMax;
        if (!decode(reinterpret_cast<const void*>(target), room, target, stub)) return false;
        const auto& o = stub.operand[0];
        if (stub.category() == ZYDIS_CATEGORY_UNCOND_BR && o.type == ZYDIS_OPERAND_TYPE_MEMORY && o.mem.base == ZYDIS_REGISTER_RIP)
          name = name_of_slot(module_, stub.next() + static_cast<std::uintptr_t>(o.mem.disp.value));
        if (name) break;
      }
    }
    if (!name) return false;
    return strcmp(name, "memset") == 0 || strcmp(name, "__memset_chk") == 0 || strcmp(name, "bzero") == 0;
  }

  // -- moves

  /// The place in the frame that a memory operand means; false when it is none.
  static bool frame_place(const Place& p, const ZydisDecodedOperand& o, std::int32_t& at) noexcept {
    if (o.type != ZYDIS_OPERAND_TYPE_MEMORY || o.mem.index != ZYDIS_REGISTER_NONE || o.mem.segment == ZYDIS_REGISTER_FS) return false;
    const int base = general_register(o.mem.base);
    const auto displacement = static_cast<std::int32_t>(o.mem.disp.value);
    if (base == kRsp) at = p.sp + displacement;
    else if (base == kRbp && p.has_rbp) at = p.rbp + displacement;
    else return false;
    return true;
  }
  static int whole_register(const ZydisDecodedOperand& o) noexcept {
    return o.type == ZYDIS_OPERAND_TYPE_REGISTER && o.size == 64 ? general_register(o.reg.value) : -1;
  }

  WrapperVerdict move(Place& p) noexcept {
    const auto& to = i_.operand[0];
    const auto& from = i_.operand[1];
    const int r = whole_register(to), s = whole_register(from);
    std::int32_t at;
    switch (i_.mnemonic()) {
      case ZYDIS_MNEMONIC_MOV:
        if (r >= 0 && s >= 0) return p.copy(r, s), kGoOn;
        if (r >= 0 && frame_place(p, from, at)) return p.load(r, at), kGoOn;
        if (s >= 0 && p.holds(s)) return store(p, to, p.offset[s]);
        break;
      case ZYDIS_MNEMONIC_PUSH: return p.push(r), kGoOn;
      case ZYDIS_MNEMONIC_POP: return p.pop(r), kGoOn;
      case ZYDIS_MNEMONIC_LEAVE:
        p.sp = p.rbp + 8;
        p.has_rbp = false;
        p.drop(kRbp);
        return kGoOn;
      case ZYDIS_MNEMONIC_TEST:
        return test(p, to, from);
      case ZYDIS_MNEMONIC_CMP: return compare(p, to, from);
      case ZYDIS_MNEMONIC_LEA: return add_up(p, r, from);
      case ZYDIS_MNEMONIC_ADD: case ZYDIS_MNEMONIC_SUB:
        if (from.type == ZYDIS_OPERAND_TYPE_IMMEDIATE && r >= 0) {
          const auto n = static_cast<std::int32_t>(from.imm.value.s);
          return p.shift(r, i_.mnemonic() == ZYDIS_MNEMONIC_ADD ? n : -n), kGoOn;
        }
        break;
      case ZYDIS_MNEMONIC_NOP: case ZYDIS_MNEMONIC_ENDBR64: return kGoOn;
      default: break;
    }
    return anything_else(p);
  }

  WrapperVerdict store(Place& p, const ZydisDecodedOperand& to, std::int32_t offset) noexcept {
    std::int32_t at;
    if (frame_place(p, to, at)) return p.put_slot(at, offset) ? kGoOn : WrapperVerdict::too_long;
    return is_strict_ ? WrapperVerdict::stores_it : kGoOn;
  }
  WrapperVerdict test(Place& p, const ZydisDecodedOperand& a, const ZydisDecodedOperand& b) noexcept {
    const bool is_same = a.type == ZYDIS_OPERAND_TYPE_REGISTER && b.type == a.type && a.reg.value == b.reg.value;
    const int r = is_same ? general_register(a.reg.value) : -1;
    const bool is_told = r >= 0 && r == p.told_by;
    p.null_is_zero = r >= 0 && ((a.size == 64 && p.holds(r)) || (is_told && !p.told_null));
    p.null_is_other = is_told && p.told_null;
    return kGoOn;
  }
  WrapperVerdict compare(Place& p, const ZydisDecodedOperand& a, const ZydisDecodedOperand& b) noexcept {
    std::int32_t at;
    const int r = whole_register(a);
    const bool is_zero = b.type == ZYDIS_OPERAND_TYPE_IMMEDIATE && b.imm.value.u == 0;
    p.null_is_other = false;
    p.null_is_zero = is_zero && ((r >= 0 && p.holds(r)) || (a.size == 64 && frame_place(p, a, at) && p.find_slot(at) >= 0));
    return kGoOn;
  }
  WrapperVerdict add_up(Place& p, int r, const ZydisDecodedOperand& o) noexcept {
    const int base = general_register(o.mem.base);
    const auto displacement = static_cast<std::int32_t>(o.mem.disp.value);
    const bool is_plain = o.mem.index == ZYDIS_REGISTER_NONE;
    if (r == kRsp && base == kRbp && is_plain && p.has_rbp) p.sp = p.rbp + displacement;
    else if (r == kRsp && base == kRsp && is_plain) p.sp += displacement;
    if (r == kRbp) {
      p.has_rbp = base == kRsp && is_plain;
      p.rbp = p.sp + displacement;
    }
    if (is_plain && base >= 0 && p.holds(base)) p.take(r, p.offset[base] + displacement);
    else if (o.mem.index != ZYDIS_REGISTER_NONE && p.holds(base)) p.take(r, p.offset[base]);  // an array's end, perhaps
    else p.drop(r);
    return kGoOn;
  }

  /// Any other instruction: what it writes is forgotten; a write through the pointer, and the pointer going where it is not
  /// followed (another kind of register), count as use.
  WrapperVerdict anything_else(Place& p) noexcept {
    bool reads_it = false, keeps_it = false;
    std::uint32_t written = 0;
    for (unsigned k = 0; k < i_.info.operand_count; ++k) {
      const auto& o = i_.operand[k];
      const bool writes = o.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE, reads = o.actions & ZYDIS_OPERAND_ACTION_MASK_READ;
      if (o.type == ZYDIS_OPERAND_TYPE_MEMORY && writes) {
        if (const auto v = write_memory(p, o); v != kGoOn) return v;
      }
      if (o.type != ZYDIS_OPERAND_TYPE_REGISTER) continue;
      const int r = general_register(o.reg.value);
      if (reads && o.size == 64 && p.holds(r)) reads_it = true;
      if (writes && r >= 0) written |= bit(r);
      if (writes && r < 0 && o.visibility != ZYDIS_OPERAND_VISIBILITY_HIDDEN) keeps_it = true;
    }
    if (reads_it && keeps_it && is_strict_) return WrapperVerdict::stores_it;
    if (written & bit(kRsp)) return WrapperVerdict::too_long;
    if (written & bit(p.told_by)) p.told_by = -1;
    if (p.null_is_zero && (i_.mnemonic() == ZYDIS_MNEMONIC_SETZ || i_.mnemonic() == ZYDIS_MNEMONIC_SETNZ)) {
      p.told_by = general_register(i_.operand[0].reg.value);
      p.told_null = i_.mnemonic() == ZYDIS_MNEMONIC_SETZ;
    }
    if (i_.category() == ZYDIS_CATEGORY_CMOV && reads_it) {
      if (const int s = whole_register(i_.operand[1]); s >= 0 && p.holds(s)) p.take(whole_register(i_.operand[0]), p.offset[s]);
    } else {
      p.holders &= ~written;
      if (written & bit(kRbp)) p.has_rbp = false;
    }
    p.null_is_zero = p.null_is_other = false;
    return kGoOn;
  }
  WrapperVerdict write_memory(Place& p, const ZydisDecodedOperand& o) noexcept {
    std::int32_t at;
    if (frame_place(p, o, at)) {
      p.drop_slot(at);
      return kGoOn;
    }
    const int base = general_register(o.mem.base), index = general_register(o.mem.index);
    if (p.holds(index) && is_strict_) return WrapperVerdict::writes_through;
    if (!p.holds(base)) return kGoOn;
    const std::int32_t end = p.offset[base] + static_cast<std::int32_t>(o.mem.disp.value) + o.size / 8;
    if (index >= 0 && is_strict_) return WrapperVerdict::writes_through;
    if (end > p.written) p.written = end;
    return kGoOn;
  }

  const Module& module_;
  const FrameRule& frame_;
  Range code_;
  bool is_strict_;
  bool returned_ = false;
  unsigned instructions_ = 0, waiting_ = 0, seen_ = 0;
  Instruction& i_ = bench.instruction;
  Op op_;
  Place* const way_ = bench.way;
  std::uint64_t* const mark_ = bench.mark;
};

}  // namespace

WrapperVerdict judge_wrapper(const Module& m, Range code, std::uintptr_t return_address, const FrameRule& frame,
                             WrapperRule rule) noexcept {
  if (!frame.is_known || !code.holds(return_address)) return WrapperVerdict::not_readable;
  return Judge(m, frame, code, rule).run(return_address);
}

}  // namespace mortise::affinity
