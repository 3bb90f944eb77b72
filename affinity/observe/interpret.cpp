#include "affinity/observe/interpret.hpp"

namespace mortise::affinity {

const char* name_of(Stop stop) noexcept {
  constexpr const char* kNames[kStops] = {"step limit",  "unknown branches", "unsupported", "pointer gone", "unreadable",
                                          "system call", "shadow full",      "returned",    "outside"};
  return kNames[static_cast<unsigned>(stop)];
}

Interpreter::Flow Interpreter::leave_frame(std::uint64_t dropped) noexcept {
  const Value to = machine_.pop();
  if (machine_.unreadable()) return stop(Stop::unreadable);
  if (!to.known) return stop(Stop::unsupported);
  machine_.set_general(kRsp, Value::of(machine_.general(kRsp).bits + dropped));
  if (depth_ > 0) {
    --depth_;
  } else {
    ++returns_;
    if (follows_object_ && (returns_ > kReturns || !machine_.holds_pointer())) return stop(Stop::returned);
    if (!scope_.may_enter(to.bits)) return stop(Stop::outside);
  }
  pc_ = to.bits;
  return Flow::moved;
}

// A call whose inside is not looked at.
Interpreter::Flow Interpreter::step_over(std::uintptr_t target) noexcept {
  const Outside what = Scope::outside(target);
  if (what == Outside::never_returns) return stop(Stop::outside);
  if (what == Outside::fills) machine_.fill_bytes();
  if (what == Outside::copies) machine_.copy_bytes();
  const Value result = what != Outside::unknown ? machine_.general(kRdi) : Value{};
  machine_.forget_caller_saved();
  machine_.set_general(kRax, result);
  return Flow::next;
}

Interpreter::Flow Interpreter::go(std::uintptr_t target, bool is_indirect) noexcept {
  if (!is_indirect || scope_.may_enter(target)) {
    pc_ = target;
    return Flow::moved;
  }
  // A tail call out of sight, or a stub that leads to libc. The stub of a function that is not bound yet has pushed two words.
  if (scope_.is_loader(target)) machine_.set_general(kRsp, Value::of(machine_.general(kRsp).bits + 16));
  if (step_over(target) == Flow::stopped) return Flow::stopped;
  return leave_frame(0);
}

Interpreter::Flow Interpreter::enter(const Op& op, std::uintptr_t next) noexcept {
  const bool is_direct = op.a.place == Operand::Place::immediate;
  const Value target = machine_.read(op.a);
  if (machine_.unreadable()) return stop(Stop::unreadable);
  if (!target.known || depth_ >= kDepth || (!is_direct && !scope_.may_enter(target.bits))) return step_over(target.bits);
  machine_.push(Value::of(next));
  ++depth_;
  pc_ = target.bits;
  return Flow::moved;
}

Interpreter::Flow Interpreter::step(const Op& op) noexcept {
  const std::uintptr_t next = pc_ + op.length;
  switch (op.kind) {
    case Kind::stop: return stop(Stop::system_call);
    case Kind::call: return enter(op, next);
    case Kind::ret: return leave_frame(op.a.place == Operand::Place::immediate ? static_cast<std::uint64_t>(op.a.value) : 0);
    case Kind::jump: {
      const Value target = machine_.read(op.a);
      if (machine_.unreadable()) return stop(Stop::unreadable);
      if (!target.known) return stop(Stop::unknown_branches);
      return go(target.bits, op.a.place != Operand::Place::immediate);
    }
    case Kind::branch: {
      const int taken = machine_.holds(op.condition);
      if (op.writes_general) machine_.set_general(kRcx, {});
      if (taken < 0 && ++guesses_ > kUnknownBranches) return stop(Stop::unknown_branches);
      return taken == 1 ? go(static_cast<std::uintptr_t>(op.a.value), false) : Flow::next;
    }
    default: machine_.execute(op); return Flow::next;
  }
}

Outcome Interpreter::run(Code& code, const Start& start, const void* own, unsigned steps) noexcept {
  code_ = &code;
  machine_.begin(start.general[kRsp].bits, start.object, start.size);
  for (unsigned r = 0; r < 16; ++r) machine_.set_general(r, start.general[r]);
  scope_.begin(own);
  pc_ = start.pc;
  depth_ = guesses_ = returns_ = 0;
  follows_object_ = start.size != 0;
  why_ = Stop::step_limit;
  unsigned done = 0;
  for (; done < steps; ++done) {
    bool readable = true;
    const Op* const op = code_->at(pc_, machine_.memory().real(), readable);
    if (!op) {
      why_ = readable ? Stop::unsupported : Stop::unreadable;
      break;
    }
    const std::uintptr_t next = pc_ + op->length;
    const Flow flow = step(*op);
    if (flow == Flow::stopped) break;
    if (flow == Flow::next) pc_ = next;
    if (machine_.unreadable() || machine_.full() || machine_.lost_stack() || machine_.too_long()) {
      why_ = machine_.unreadable() ? Stop::unreadable : machine_.full() ? Stop::shadow_full : Stop::unsupported;
      break;
    }
    if (follows_object_ && depth_ == 0 && !machine_.holds_pointer()) {
      why_ = Stop::pointer_gone;
      break;
    }
  }
  return {why_, done, returns_};
}

}  // namespace mortise::affinity
