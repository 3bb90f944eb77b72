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

/// What comes to the calling thread, and what may be passed to it now: nothing, while it has one to take.
struct Awaiting {
  std::uint64_t set = 0, now = 0;
};

/// While a handler of the program runs: it may jump out of the wait that it has interrupted.
Awaiting stop_awaiting() noexcept;
void await_again(Awaiting before) noexcept;

/// As await_signals, where one of these is there already: no other comes before that has been taken, for another thread may be free.
void await_further_signals(std::uint64_t set) noexcept;

/// Makes a call while those of `set` come here. They no longer do where it is cancelled: what runs then waits for none.
template <class Call>
long while_awaiting(std::uint64_t set, bool is_one_there, Call call) {
  std::uint64_t before = self->announced.load(), meanwhile = before | set;
  long result;
  pthread_cleanup_push(&await_signals, &before);
  is_one_there ? await_further_signals(meanwhile) : await_signals(&meanwhile);
  result = call();
  pthread_cleanup_pop(1);
  return result;
}

/// For the calling thread's process.
std::uint64_t pending_here() noexcept;

/// Has those that the program was sent before come to the calling thread, as many as it can take now.
void have_pending(std::uint64_t set, std::size_t most) noexcept;

/// The calling thread has let those of `mask`'s complement in: one that the program was sent before comes, though it may be for a moment only.
void let_pending_in(std::uint64_t mask) noexcept;

/// In a thread that ends, which blocks all by now: what it was passed and has not taken is the program's still.
void give_signals_back() noexcept;

/// The same before exec ends it; a task of a rendezvous.
void leave_signals(void*);

}  // namespace mortise::isolate
