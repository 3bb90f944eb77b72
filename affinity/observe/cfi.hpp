// Call frame information of a module: by which rule a call's frame is left, and where the function around an address begins and ends.
#pragma once

#include "affinity/observe/modules.hpp"
#include "mortise/os/frame_rule.hpp"

namespace mortise::affinity {

using os::FrameRule;
using os::kCalleeSaved;
using os::kRbpOfCalleeSaved;

/// The rule for a call that returns to `return_address`. Reads `m`'s unwind table, which stays while `m` is loaded. O(log n).
inline FrameRule frame_rule(const Module& m, std::uintptr_t return_address) noexcept { return os::frame_rule(m.unwind, return_address); }

/// The code of the function (or of its cold part) that `address` lies in; empty when unknown.
inline Range function_of(const Module& m, std::uintptr_t address) noexcept { return os::function_of(m.unwind, address); }

}  // namespace mortise::affinity
