// join.hpp: waiting for threads, and the calls that name another thread.
#pragma once

#include <csignal>
#include <ctime>
#include <pthread.h>

namespace mortise::isolate {

int join_thread(pthread_t handle, void** result);
int try_join_thread(pthread_t handle, void** result);
int timed_join_thread(pthread_t handle, void** result, const timespec* deadline);
int clock_join_thread(pthread_t handle, void** result, clockid_t clock, const timespec* deadline);
int c11_join_thread(pthread_t handle, int* result);
int detach_thread(pthread_t handle) noexcept;
int signal_thread(pthread_t handle, int signal) noexcept;
/// As programs built for glibc before 2.34 know it: ESRCH for a thread that has ended.
int signal_thread_or_tell(pthread_t handle, int signal) noexcept;
int queue_signal_to_thread(pthread_t handle, int signal, sigval value) noexcept;
int raise_signal(int signal) noexcept;
/// Replacement of kill. The number of a thread means the program, as for the kernel's own threads.
int signal_process(pid_t process, int signal) noexcept;
/// Replacement of sigqueue.
int queue_signal_to_process(pid_t process, int signal, sigval value) noexcept;
/// What both come down to; with `info` it is queued.
int send_to_process(pid_t process, int signal, const siginfo_t* info) noexcept;
/// Replacement of tgkill.
int signal_thread_by_id(int process, int thread, int signal) noexcept;
/// Whose `thread` is for the kernel, where the program says that it is the program's.
int process_of_thread(int process, int thread) noexcept;
int thread_cpu_clock(pthread_t handle, clockid_t* out) noexcept;
int set_thread_name(pthread_t handle, const char* name) noexcept;
int get_thread_name(pthread_t handle, char* out, std::size_t bytes) noexcept;

}  // namespace mortise::isolate
