// epoll_signals.hpp: threads that wait in epoll for a signalfd.
//
// Such a descriptor wakes an epoll one in the address space alone that has put it there, and several threads may wait in one. So whoever
// waits looks at both, and where there is a signal has the epoll descriptor look itself, with the words that the program put it there by.
#pragma once

#include <cstdint>
#include <sys/epoll.h>

namespace mortise::isolate {

class Lock;

/// Replacement of epoll_ctl: keeps what a signalfd is put in with.
int control_epoll(int epoll, int operation, int fd, epoll_event* event) noexcept;

/// epoll_wait and epoll_pwait where a signalfd is in it: false otherwise, and nothing is done. A point of cancellation.
bool wait_with_signals(int epoll, epoll_event* events, int most, int milliseconds, const std::uint64_t* mask, int& got);

Lock& epoll_lock() noexcept;  // for tables.hpp

}  // namespace mortise::isolate
