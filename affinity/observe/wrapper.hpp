// Is the function that called malloc a wrapper? Read from its machine code, all ways from the call to its end.
//
// Strict rule [Wang10]: on every way that does not find the pointer null it is returned, perhaps moved past a header that was
// written in front; it is stored nowhere but in the function's own frame, nothing is written through it, and it is passed to
// nobody but memset, bzero and the like. Liberal rule: that it is returned is enough, whatever else is done with it.
#pragma once

#include <cstdint>

#include "affinity/observe/cfi.hpp"

namespace mortise::affinity {

enum class WrapperRule : std::uint8_t { strict, liberal };

/// Why a function is a wrapper, or is not: for the dump.
enum class WrapperVerdict : std::uint8_t {
  wrapper,
  stores_it,       ///< the pointer goes to memory outside the function's frame
  writes_through,  ///< the object is written
  passes_it,       ///< the pointer is an argument of a call
  does_not_return_it,
  too_long,        ///< more instructions or ways than are looked at
  not_readable,    ///< code made at run time, or without unwind information
};
const char* name_of(WrapperVerdict v) noexcept;

/// Judges the function that `return_address`, behind a call that has returned a new pointer in rax, lies in. `frame` is the
/// rule for that address, `code` the part of `m` that it lies in. Reads code of `m` only. O(instructions); bounded by a few hundred.
WrapperVerdict judge_wrapper(const Module& m, Range code, std::uintptr_t return_address, const FrameRule& frame,
                             WrapperRule rule) noexcept;

}  // namespace mortise::affinity
