// Call frame information: where, after a call returns, the caller's frame and its saved registers lie, as the compiler wrote it
// down for exceptions. One rule a return address, computed once; no frame pointers are needed.
//
// Source: DWARF 5, 6.4; the Linux Standard Base's .eh_frame_hdr, whose table is searched by halves.
#pragma once

#include <cstdint>

#include "affinity/observe/modules.hpp"

namespace mortise::affinity {

inline constexpr unsigned kCalleeSaved = 6;  ///< rbx rbp r12 r13 r14 r15
inline constexpr unsigned kRbpOfCalleeSaved = 1;

/// The canonical frame address is `cfa_offset` from the stack pointer after the return, or from rbp; the function's own return
/// address lies in the word below it.
struct FrameRule {
  bool is_known = false;             ///< false: no information, a signal's frame, or one that takes an expression
  bool from_rbp = false;
  std::int32_t cfa_offset = 0;
  std::int16_t saved_at[kCalleeSaved] = {};  ///< from the frame address; 0 when the register still holds its value
  Range function;                    ///< the code that the rule's entry covers
};

/// The rule for a call that returns to `return_address`. Reads `m`'s unwind table, which stays while `m` is loaded. O(log n).
FrameRule frame_rule(const Module& m, std::uintptr_t return_address) noexcept;

/// The code of the function (or of its cold part) that `address` lies in; empty when unknown.
Range function_of(const Module& m, std::uintptr_t address) noexcept;

}  // namespace mortise::affinity
