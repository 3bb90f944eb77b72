// timed_calls.hpp: calls that wait for a time and that the kernel does not take up again where the runtime's signal ends them.
#pragma once

#include <ctime>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

namespace mortise::isolate {

/// Replacements of libc's poll, ppoll, select, pselect, sigsuspend, epoll_wait, epoll_pwait and clock_nanosleep, by way of which its other
/// sleeps go. They end early for handlers of the program only. Points of cancellation.
int poll_descriptors(pollfd* descriptors, nfds_t count, int milliseconds);
int poll_descriptors_masked(pollfd* descriptors, nfds_t count, const timespec* time, const sigset_t* set);
int select_descriptors(int count, fd_set* in, fd_set* out, fd_set* other, timeval* time);
int select_descriptors_masked(int count, fd_set* in, fd_set* out, fd_set* other, const timespec* time, const sigset_t* set);
int wait_with_mask(const sigset_t* set);
int wait_for_events(int fd, epoll_event* events, int most, int milliseconds);
int wait_for_events_masked(int fd, epoll_event* events, int most, int milliseconds, const sigset_t* set);
int sleep_on_clock(clockid_t clock, int flags, const timespec* time, timespec* rest);

}  // namespace mortise::isolate
