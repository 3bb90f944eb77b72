// watchdog.hpp: noticing a hang that isolation itself causes.
#pragma once

namespace mortise::isolate {

/// Starts a kernel thread in the leader that looks once a second whether a thread sleeps on a private futex: such a
/// sleep is keyed by address space, so no other thread can ever end it. It comes from system calls compiled into the
/// program.
void start_watchdog() noexcept;

/// In the child of a fork: it is not there any more.
/// Sends it the signal, which it takes in pass_signals_on().
void poke_watchdog(int signal) noexcept;
void forget_watchdog() noexcept;

}  // namespace mortise::isolate
