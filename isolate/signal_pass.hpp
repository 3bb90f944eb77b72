// signal_pass.hpp: what was sent to the program comes to the thread that would have it, by the runtime's watchdog.
#pragma once

#include <csignal>
#include <cstdint>

namespace mortise::isolate {

/// In the watchdog: passes signals on for a second.
void pass_signals_on() noexcept;

/// The calling thread has said that it takes no more: until none is being passed on to it.
void wait_for_passing() noexcept;

/// Has one of those that the program was sent before come to the calling thread: of the lowest number, and of that the first. False: none is
/// pending, or there is no room for it.
bool have_one_pending(std::uint64_t set) noexcept;

/// One that was passed to the calling thread is the program's again, the first of its number. False: there is no place for it.
bool return_signal(siginfo_t info) noexcept;

/// In main, which is about to take one of these: of those that the watchdog has in hand the first comes to main's thread; or the first of each
/// number. For a moment the watchdog leaves them to main.
void have_one_back(std::uint64_t numbers) noexcept;
void have_each_back(std::uint64_t numbers) noexcept;

/// In main, which is about to take some: all that the watchdog has in hand is queued for the process again. The second, where no other thread
/// lives: and what it is taking just now.
void have_queue_whole() noexcept;
void have_queue_for_good() noexcept;

/// In a thread other than main: a handler has done with this one, and lets it in when it returns.
void handler_ends(int signal) noexcept;

/// Before exec ends the other threads: nothing is taken or passed on any more; then, in each of them, what it was passed and has not taken is
/// left for main (false: there is no place for it); and in main, when they have ended, all that comes to its thread.
void stop_passing_on() noexcept;
bool leave_signal(const siginfo_t& info) noexcept;
void have_all_signals_back() noexcept;

/// In the child of a fork: nobody is passing any on.
void forget_passing() noexcept;

}  // namespace mortise::isolate
