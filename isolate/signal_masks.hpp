// signal_masks.hpp: who would handle a signal that was sent to the program.
#pragma once

#include <cstdint>

namespace mortise::isolate {

struct Thread;

/// Signals that the leader blocks, and that a handler in another thread would take, or that would end the program there. For the watchdog,
/// which has the time to ask.
std::uint64_t handled_elsewhere() noexcept;

/// Whether the thread lets the signal in now.
bool lets_in(const Thread& t, int signal) noexcept;

}  // namespace mortise::isolate
