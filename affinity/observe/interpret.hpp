// A bounded interpreter without side effects: runs the program on from a state it is in, on a machine of its own, to see what
// it is about to do with an object that was just allocated.
//
//   start: the return address of the outermost wrapper, the registers that callees save, rax = the object
//   step:  fetch (decoded once, verified by its bytes) ► execute on the Machine ► follow control
//     calls      entered up to six deep; libc, the loader, the allocator and unknown targets are stepped over
//     branches   on flags that are not known fall through, at most twelve times
//     returns    from the first frame go on in its caller while something still points into the object
//   stop:  one of the reasons below; 3000 steps at most, 512 words written at most
//
// Nothing of the program changes: writes go to a shadow, reads of memory that is not there end the interpretation.
//
// Source: dynamic pool allocation by affinity [Wang10] watches the same stores; the deferral and the limits are from
// measurement (docs/affinity.md). Progress: bounded. Not synchronised: the caller holds the lock of the analysis.
#pragma once

#include "affinity/observe/code_cache.hpp"
#include "affinity/observe/machine.hpp"
#include "affinity/observe/scope.hpp"

namespace mortise::affinity {

enum class Stop : std::uint8_t {
  step_limit,        // 3000 steps
  unknown_branches,  // the thirteenth, or a jump to nobody knows where
  unsupported,       // an instruction that moves the stack in unknown ways, or is none
  pointer_gone,      // nothing points into the object any more
  unreadable,        // memory that is not there, or may not be looked at
  system_call,
  shadow_full,       // 512 words
  returned,          // the caller's caller got nothing that points into the object
  outside,           // control left for code that is not entered
};
inline constexpr unsigned kStops = 9;
const char* name_of(Stop stop) noexcept;

/// Where an interpretation starts. Registers that are not `known` are found out or stay unknown.
struct Start {
  std::uintptr_t pc;
  Value general[16];
  std::uintptr_t object;
  std::size_t size;
};

struct Outcome {
  Stop stop;
  unsigned steps;
  unsigned returns;  // frames left
};

class Interpreter {
 public:
  static constexpr unsigned kSteps = 3000, kDepth = 6, kUnknownBranches = 12, kReturns = 8;

  /// Interprets from `start`; instructions that were decoded once are in `code`. `own`: an address in the allocator's module, which is
  /// never entered; null for none. The stores are in `machine()` until the next run. At most `steps`; a profile takes fewer.
  Outcome run(Code& code, const Start& start, const void* own, unsigned steps = kSteps) noexcept;
  const Machine& machine() const noexcept { return machine_; }
  Machine& machine() noexcept { return machine_; }

 private:
  enum class Flow : std::uint8_t { next, moved, stopped };

  Flow step(const Op& op) noexcept;
  Flow go(std::uintptr_t target, bool is_indirect) noexcept;
  Flow enter(const Op& op, std::uintptr_t next) noexcept;
  Flow leave_frame(std::uint64_t dropped) noexcept;
  Flow step_over(std::uintptr_t target) noexcept;
  Flow stop(Stop why) noexcept {
    why_ = why;
    return Flow::stopped;
  }

  Machine machine_;
  Scope scope_;
  Code* code_ = nullptr;  ///< of this run
  std::uintptr_t pc_ = 0;
  unsigned depth_ = 0, guesses_ = 0, returns_ = 0;
  bool follows_object_ = false;  // false: nothing to lose sight of
  Stop why_ = Stop::step_limit;
};

}  // namespace mortise::affinity
