// cancel.hpp: deferred cancellation.
#pragma once

#include <ctime>
#include <pthread.h>
#include <ucontext.h>

namespace mortise::isolate {

struct Thread;

/// Replacement of pthread_cancel.
int cancel_thread(pthread_t handle) noexcept;

/// In the handler of another signal, before it returns: the wait that it interrupted is over where a cancellation came meanwhile, whose own
/// signal found the thread in the handler.
void end_cancelled_wait(ucontext_t& interrupted) noexcept;

/// Whether it unwinds: by pthread_exit, or since it was cancelled.
bool is_exiting(const Thread& t) noexcept;

/// In a thread that is through: nothing cancels it any more.
void end_cancellation(Thread& t) noexcept;

/// Takes the signal that wakes a thread out of a cancellable sleep; before the first thread.
void install_cancellation() noexcept;

/// futex_wait as a cancellation point: comes back with -ECANCELED or -EINTR when a cancellation is to be acted upon,
/// which the caller does with pthread_testcancel() once its own state is in order.
long cancellable_wait(const void* word, unsigned expected, const timespec* deadline, clockid_t clock) noexcept;

/// A system call at which the thread may be cancelled, as in libc's own. The kernel's answer.
long cancellable_call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0);

}  // namespace mortise::isolate
