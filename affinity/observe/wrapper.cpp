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
      if (!read_op(p.pc, code_.last, op_)) return WrapperVerdict::not_readable;
      bool ends = false;
      if (const WrapperVerdict v = step(p, ends); v != kGoOn || ends) return v;
    }
  }

  WrapperVerdict step(Place& p, bool& ends) noexcept {
    const std::uintptr_t next = p.pc + op_.length;
    const std::uintptr_t target = op_.a.place == Operand::Place::immediate ? static_cast<std::uintptr_t>(op_.a.value) : 0;
    switch (op_.kind) {
      case Kind::branch: return fork(p, ends, target, next, op_.condition == 4, op_.condition == 5);
      case Kind::jump: return jump(p, ends, target);
      case Kind::call: return call(p, target, next);
      case Kind::ret: return leave(p, ends);
      case Kind::stop: ends = true; return kGoOn;
      default: p.pc = next; return move(p);
    }
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
    const char* name = target ? nullptr : name_behind(op_);
    Op stub;
    for (unsigned hops = 0; !name && hops < 2 && code_.holds(target); ++hops, target += stub.length) {
      if (!read_op(target, code_.last, stub)) return false;
      if (stub.kind == Kind::jump) name = name_behind(stub);
    }
    if (!name) return false;
    return strcmp(name, "memset") == 0 || strcmp(name, "__memset_chk") == 0 || strcmp(name, "bzero") == 0;
  }
  /// Of what an indirect jump or call leads to, where it is read from a slot at a fixed address.
  const char* name_behind(const Op& op) const noexcept {
    const bool is_slot = op.a.place == Operand::Place::memory && op.a.reg == kNoRegister && op.a.index == kNoRegister;
    return is_slot ? name_of_slot(module_, static_cast<std::uintptr_t>(op.a.value)) : nullptr;
  }

  // -- moves

  WrapperVerdict move(Place& p) noexcept {
    const int r = whole_of(op_.to), s = whole_of(op_.a);
    std::int32_t at;
    switch (op_.kind) {
      case Kind::nothing: return kGoOn;
      case Kind::move:
        if (r >= 0 && s >= 0) return p.copy(r, s), kGoOn;
        if (r >= 0 && op_.a.bytes == 8 && p.frame_place(op_.a, at)) return p.load(r, at), kGoOn;
        if (s >= 0 && p.holds(s)) return store(p, op_.to, p.offset[s]);
        break;
      case Kind::push: return p.push(s), kGoOn;
      case Kind::pop: return p.pop(r), kGoOn;
      case Kind::leave:
        p.sp = p.rbp + 8;
        p.has_rbp = false;
        p.drop(kRbp);
        return kGoOn;
      case Kind::test: return test(p), kGoOn;
      case Kind::compare: return compare(p), kGoOn;
      case Kind::address:
        if (r >= 0) return add_up(p, r, op_.a), kGoOn;
        break;
      case Kind::add: case Kind::subtract:
        if (r < 0 || op_.b.place != Operand::Place::immediate) break;
        return p.shift(r, static_cast<std::int32_t>(op_.kind == Kind::add ? op_.b.value : -op_.b.value)), kGoOn;
      default: break;
    }
    return anything_else(p);
  }

  WrapperVerdict store(Place& p, const Operand& to, std::int32_t offset) noexcept {
    std::int32_t at;
    if (p.frame_place(to, at)) return p.put_slot(at, offset) ? kGoOn : WrapperVerdict::too_long;
    return is_strict_ ? WrapperVerdict::stores_it : kGoOn;
  }
  void test(Place& p) const noexcept {
    const bool is_same = op_.a.place == Operand::Place::general && op_.b.place == op_.a.place && op_.a.reg == op_.b.reg;
    const int r = is_same && op_.a.high_byte == op_.b.high_byte ? op_.a.reg : -1;
    const bool is_told = r >= 0 && r == p.told_by;
    p.null_is_zero = r >= 0 && ((op_.a.bytes == 8 && p.holds(r)) || (is_told && !p.told_null));
    p.null_is_other = is_told && p.told_null;
  }
  void compare(Place& p) const noexcept {
    std::int32_t at;
    const int r = whole_of(op_.a);
    const bool is_zero = op_.b.place == Operand::Place::immediate && op_.b.value == 0;
    p.null_is_other = false;
    p.null_is_zero = is_zero && ((r >= 0 && p.holds(r)) || (op_.a.bytes == 8 && p.frame_place(op_.a, at) && p.find_slot(at) >= 0));
  }
  static void add_up(Place& p, int r, const Operand& o) noexcept {
    const int base = o.reg == kNoRegister ? -1 : o.reg;
    const auto displacement = static_cast<std::int32_t>(o.value);
    const bool is_plain = o.index == kNoRegister;
    if (r == kRsp && base == kRbp && is_plain && p.has_rbp) p.sp = p.rbp + displacement;
    else if (r == kRsp && base == kRsp && is_plain) p.sp += displacement;
    if (r == kRbp) {
      p.has_rbp = base == kRsp && is_plain;
      p.rbp = p.sp + displacement;
    }
    if (base >= 0 && p.holds(base)) p.take(r, p.offset[base] + (is_plain ? displacement : 0));  // with an index: an array's end, perhaps
    else p.drop(r);
  }

  /// Any other instruction: what it writes is forgotten; a write through the pointer, and the pointer going where it is not
  /// followed (another kind of register), count as use.
  WrapperVerdict anything_else(Place& p) noexcept {
    if (op_.to.place == Operand::Place::memory) {
      if (const auto v = write_memory(p, op_.to); v != kGoOn) return v;
    }
    if (is_strict_ && keeps_it(p)) return WrapperVerdict::stores_it;
    const std::uint32_t written = written_by(op_);
    if (written & bit(kRsp)) return WrapperVerdict::too_long;
    if (written & bit(p.told_by)) p.told_by = -1;
    if (p.null_is_zero && op_.kind == Kind::set && op_.to.place == Operand::Place::general && (op_.condition == 4 || op_.condition == 5)) {
      p.told_by = op_.to.reg;
      p.told_null = op_.condition == 4;
    }
    const int r = whole_of(op_.to), s = whole_of(op_.a);
    if (op_.kind == Kind::select && ((s >= 0 && p.holds(s)) || (r >= 0 && p.holds(r)))) {
      if (s >= 0 && p.holds(s)) p.take(r, p.offset[s]);
    } else {
      p.holders &= ~written;
      if (written & bit(kRbp)) p.has_rbp = false;
    }
    p.forget_flags();
    return kGoOn;
  }
  /// Whether the pointer goes to a vector, or to memory by way of something else than a move.
  bool keeps_it(const Place& p) const noexcept {
    const auto is_held = [&](const Operand& o) { return whole_of(o) >= 0 && p.holds(o.reg); };
    if (op_.kind == Kind::forget) return p.holders & op_.keeps_general;
    if (op_.kind == Kind::exchange) return op_.to.place == Operand::Place::memory && is_held(op_.a);
    return op_.to.place == Operand::Place::vector && (is_held(op_.a) || is_held(op_.b));
  }
  static std::uint32_t written_by(const Op& op) noexcept {
    std::uint32_t written = op.writes_general;
    if (op.to.place == Operand::Place::general) written |= bit(op.to.reg);
    if (op.kind == Kind::exchange && op.a.place == Operand::Place::general) written |= bit(op.a.reg);
    if (op.kind == Kind::multiply_wide || op.kind == Kind::divide) written |= bit(kRax) | bit(kRdx);
    if (op.kind == Kind::fill || op.kind == Kind::copy) written |= bit(kRcx) | bit(kRdi) | (op.kind == Kind::copy ? bit(kRsi) : 0);
    return written;
  }
  WrapperVerdict write_memory(Place& p, const Operand& o) noexcept {
    std::int32_t at;
    if (p.frame_place(o, at)) {
      p.drop_slot(at);
      return kGoOn;
    }
    const bool by_index = o.index != kNoRegister, by_base = o.reg != kNoRegister && p.holds(o.reg);
    if (is_strict_ && by_index && (p.holds(o.index) || by_base)) return WrapperVerdict::writes_through;
    if (!by_base) return kGoOn;
    const std::int32_t end = p.offset[o.reg] + static_cast<std::int32_t>(o.value) + o.bytes;
    if (end > p.written) p.written = end;
    return kGoOn;
  }

  const Module& module_;
  const FrameRule& frame_;
  Range code_;
  bool is_strict_;
  bool returned_ = false;
  unsigned instructions_ = 0, waiting_ = 0, seen_ = 0;
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
