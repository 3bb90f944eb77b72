// Counting by single-stepping: the slow way that cannot be wrong.
#pragma once

#include <sys/types.h>

#include "calls.hpp"

namespace mortise::count {

/// Carries out one call. With `marked`, between two breakpoint instructions, for a tracer.
void* perform(const Library& library, const Call& call, void* pointer, bool marked);

/// Steps through everything that `child` does between marks and writes, for each call, how many instructions of the
/// library it took into `counts`. Returns how many calls there were. The child must have asked to be traced and have
/// stopped itself.
std::size_t step_through(pid_t child, const Library& library, std::uint32_t* counts, std::size_t counts_max);

}  // namespace mortise::count
