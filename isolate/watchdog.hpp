// watchdog.hpp: noticing a hang that isolation itself causes.
#pragma once

#include <csignal>

namespace mortise::isolate {

/// Starts a kernel thread in the leader that looks once a second whether a thread sleeps on a private futex: such a
/// sleep is keyed by address space, so no other thread can ever end it. It comes from system calls compiled into the
/// program.
void start_watchdog() noexcept;

/// Wakes it in pass_signals_on(), where it looks who wants something. The signal is blocked in it like all others, and of the old kind: such
/// comes also where as many are queued as may be. The kernel sends none of this number; one that the program was sent is not a poke.
inline constexpr int kPoke = SIGSTKFLT;
void poke_watchdog() noexcept;
bool is_poke(const siginfo_t& info) noexcept;

/// What timers that a function is called for send it.
inline constexpr int kExpiry = 33;

/// The kernel's number of it; 0: it is not there.
int watchdog_id() noexcept;
inline bool has_watchdog() noexcept { return watchdog_id() != 0; }

/// In the child of a fork: it is not there any more.
void forget_watchdog() noexcept;

}  // namespace mortise::isolate
