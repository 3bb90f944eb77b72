// leader_call.hpp: system calls in the leader's process, made for any thread.
//
// What the kernel keeps for a process - timers, pending signals - is each thread's own when threads are processes. What programs take for
// theirs as a whole is kept in the leader's, which lives longest.
//
//   thread      holds the lock; its request in shared memory; pokes the watchdog; sleeps
//   watchdog    a kernel thread of the leader's process: does it, wakes the thread
#pragma once

#include <cstddef>

namespace mortise::isolate {

/// Runs what(a copy of the `bytes` at `argument`) there, and copies back what that has become. `what` makes system calls and nothing else.
/// Answers what it answers. Blocking; runs no handler of the program meanwhile.
long in_leader(long (*what)(void*), void* argument, std::size_t bytes) noexcept;

template <class Argument>
long in_leader(long (*what)(void*), Argument& argument) noexcept {
  return in_leader(what, &argument, sizeof argument);
}

/// In the watchdog, after each poke.
void answer_leader_call() noexcept;

/// In the child of a fork: nobody is asking.
void forget_leader_call() noexcept;

}  // namespace mortise::isolate
