// Which nodes are hot, and which are visited one after the other: by sampling, as the machine's counters are out of reach in
// most virtual machines.
//
//   timer of CPU time ─► signal ─► the interrupted registers ─► forty-eight steps of the interpreter ─► the addresses it touches
//                                                                   first of them: heat of its node
//                                                                   each with the next of another node: a pair
//
// An interrupted instruction is the oldest that has not finished, which is the load that waits for memory. The interpreter runs
// on from there, without side effects, to see what comes next; nothing of the program is changed.
//
// The signal is SIGURG, which is ignored where nobody handles it. A program that handles it already is left alone: then nothing
// is sampled, and one line says so. Lock-free; a sample that meets another one is dropped and counted.
#pragma once

#include "affinity/seam.hpp"  // start_profile

namespace mortise::affinity {

/// Appends what was seen, one JSON object a line; nothing if none was started.
void dump_profile(os::Output& out) noexcept;

}  // namespace mortise::affinity
