// watchdog.hpp: noticing a hang that isolation itself causes.
#pragma once

namespace mortise::isolate {

/// Starts a kernel thread in the leader that looks once a second whether a thread sleeps on a private futex: such a
/// sleep is keyed by address space, so no other thread can ever end it. It comes from system calls compiled into the
/// program.
void start_watchdog() noexcept;

/// Wakes it in pass_signals_on(), where it looks who wants something. The signal is blocked in it like all others.
inline constexpr int kPoke = 33;
void poke_watchdog() noexcept;

/// The kernel's number of it; 0: it is not there.
int watchdog_id() noexcept;
inline bool has_watchdog() noexcept { return watchdog_id() != 0; }

/// In the child of a fork: it is not there any more.
void forget_watchdog() noexcept;

}  // namespace mortise::isolate
