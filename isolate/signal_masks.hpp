// signal_masks.hpp: who would handle a signal that was sent to the program.
#pragma once

#include <cstdint>

namespace mortise::isolate {

struct Thread;

/// Signals that the leader blocks, and that a handler in another thread would take, or that would end the program there; the others block as
/// well for now.
struct Elsewhere {
  std::uint64_t now, later;
};

/// For the watchdog, which has the time to ask.
Elsewhere handled_elsewhere() noexcept;

/// Those of them that were pending for the program when that was asked last; and that some are no more.
std::uint64_t pending_and_stopped() noexcept;
void none_is_pending(std::uint64_t signals) noexcept;

/// Signals that a thread would have, and those of them that it may be sent now.
struct Takes {
  std::uint64_t any = 0, now = 0;
};

/// What the thread lets in now, and does not wait for; nothing where it is the leader. Where one is queued for it already, another may go to a
/// thread that is free sooner.
Takes let_in_by(const Thread& t) noexcept;

/// The same of the leader.
Takes let_in_by_leader() noexcept;

/// Whether it let in one that the leader blocks, when that was asked last.
bool let_some_in(const Thread& t) noexcept;

}  // namespace mortise::isolate
