// signal_wait.hpp: sigwait in any thread takes signals that were sent to the program.
//
// A program's pid is main's, so what is sent to it waits in main's process. Servers block their signals in all threads
// and have one thread wait for them: it says so in its record, and the runtime's watchdog, a kernel thread of main's
// process, takes such signals there and passes them on. Or only one thread lets them in and handles them: the watchdog finds that
// out once a second.
#pragma once

#include <csignal>
#include <cstdint>
#include <ctime>
#include <pthread.h>

#include "thread.hpp"

namespace mortise::isolate {

/// Replacements of sigtimedwait, sigwaitinfo and sigwait. Points of cancellation.
int timed_wait_signal(const sigset_t* set, siginfo_t* info, const timespec* timeout);
int wait_signal_info(const sigset_t* set, siginfo_t* info);
int wait_signal(const sigset_t* set, int* signal);

/// Notes which signals come to the calling thread.
void await_signals(void* set) noexcept;

/// While a handler of the program runs: it may jump out of the wait that it has interrupted. Returns what came to the calling thread.
std::uint64_t stop_awaiting() noexcept;
void await_again(std::uint64_t set) noexcept;

/// Makes a call while those of `set` come here. They no longer do where it is cancelled: what runs then waits for none.
template <class Call>
long while_awaiting(std::uint64_t set, Call call) {
  std::uint64_t before = self->awaits.load(), meanwhile = before | set;
  long result;
  pthread_cleanup_push(&await_signals, &before);
  await_signals(&meanwhile);
  result = call();
  pthread_cleanup_pop(1);
  return result;
}

/// A signal that is about to be sent on in the name of whoever sent it, and one that was passed on here, as it was sent.
void mark_as_passed_on(siginfo_t& info) noexcept;
void unmark_passed_on(siginfo_t& info) noexcept;
bool is_passed_on(const siginfo_t& info) noexcept;

/// Has those that the program was sent before come to the calling thread, as many as it can take now.
void have_pending(std::uint64_t set, std::size_t most) noexcept;

/// In main: what the watchdog has in hand and nobody else would have goes back now. False: there was nothing, or this is not main.
bool have_signals_back() noexcept;

/// The calling thread has let those of `mask`'s complement in: one that the program was sent before comes, though it may be for a moment only.
void let_pending_in(std::uint64_t mask) noexcept;

/// In a thread that ends, which blocks all by now: what it was passed and has not taken is the program's still.
void give_signals_back() noexcept;

/// In the child of a fork: nobody is passing any on.
void forget_passing() noexcept;

/// In the watchdog: passes signals on for a second.
void pass_signals_on() noexcept;

}  // namespace mortise::isolate
