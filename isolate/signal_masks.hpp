// signal_masks.hpp: who would handle a signal that was sent to the program.
#pragma once

#include <cstdint>

namespace mortise::isolate {

struct Thread;

/// Signals that the leader blocks, and that a handler in another thread would take, or that would end the program there. For the watchdog,
/// which has the time to ask.
std::uint64_t handled_elsewhere() noexcept;

/// Those of them that were pending for the program when that was asked last; and that some are no more.
std::uint64_t pending_and_stopped() noexcept;
void none_is_pending(std::uint64_t signals) noexcept;

/// What the thread lets in now; nothing where it is the leader.
std::uint64_t let_in_by(const Thread& t) noexcept;

/// Whether the leader lets one of them in now, or waits for it.
bool leader_lets_in(std::uint64_t signals) noexcept;

}  // namespace mortise::isolate
