// end.hpp: how threads and the program end.
#pragma once

namespace mortise::isolate {

struct Thread;

/// Ends the whole program with `status`, from any thread, without running exit handlers.
[[noreturn]] void end_program(int status) noexcept;

/// Replacement of _exit: in the leader ends everything; elsewhere ends the caller, and the helper propagates the
/// status.
[[noreturn]] void end_process(int status) noexcept;

/// Replacement of pthread_exit; glibc's original unwinds and runs clean-up handlers and destructors.
[[noreturn]] void exit_thread(void* result);

/// Before main is cancelled: the program goes on without it, as after pthread_exit.
void see_to_cancelled_main() noexcept;

/// The last thing a thread does: its end is made known.
[[noreturn]] void finish_thread(Thread& t) noexcept;

/// The system call exit of one thread: without destructors. The program ends with the status of whoever is the last.
[[noreturn]] void exit_kernel_thread(int status) noexcept;

/// Ends all other threads and waits until the helper has reaped them. Only in the leader's process, not in the helper.
void stop_other_threads() noexcept;

/// The same, if `signal` is about to end the program by way of main. Others would die of main's death, but later than
/// its parent knows of it, and hold ports and record locks until then.
void stop_other_threads_before(int signal) noexcept;

/// Before the caller sends `signal` to another thread, or to the program: whether that ends the program.
bool would_end(const Thread& other, int signal) noexcept;
bool would_end_program(int signal) noexcept;

/// After it has, if so: does not come back, as the kernel does not for its own threads. Where `to` (main, for the program) would not have it
/// just then, it comes back after a second.
void await_end_by(int signal, const Thread& to) noexcept;

/// Waits until the helper has reaped the threads that ended by themselves: one that was joined may still be leaving, and
/// shares the descriptors until then. Only in the leader's process, not in the helper.
void wait_for_ended_threads() noexcept;

/// Sends SIGKILL to the processes of all threads but the leader.
void kill_other_threads() noexcept;

/// From the moment the program begins to end, further ends of threads are no news.
bool ending() noexcept;
void begin_ending() noexcept;
void reset_ending() noexcept;

}  // namespace mortise::isolate
