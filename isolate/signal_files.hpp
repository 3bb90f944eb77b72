// signal_files.hpp: signalfd in any thread tells of signals that were sent to the program.
//
// The kernel lets a reader have what is pending for its own process. What is sent to the program is pending for the leader's; while another
// thread reads from such a descriptor, or waits for it, it has these signals passed on to it, as in sigwait (signal_wait.hpp).
#pragma once

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <poll.h>
#include <sys/select.h>
#include <sys/types.h>

#include "signal_wait.hpp"

namespace mortise::isolate {

/// Replacement of signalfd.
int make_signal_file(int fd, const sigset_t* set, int flags) noexcept;

/// Whether it was one when it was made; cheap. The second: and this is one of several threads.
bool is_noted_file(int fd) noexcept;
bool may_be_signal_file(int fd) noexcept;

/// read, if it is one: false otherwise, and nothing is done. A point of cancellation.
bool read_signals(int fd, void* to, std::size_t bytes, ssize_t& got);

/// What a signalfd tells of; 0 where it is none. The second: any of these, where input is waited for.
std::uint64_t told_by(int fd) noexcept;
std::uint64_t told_by(const pollfd* descriptors, nfds_t count) noexcept;
std::uint64_t told_by(const fd_set* descriptors, int count) noexcept;

/// Makes a call while signals of `set` come to the calling thread; to the leader all do. `tells_again`: it ends where one is there, also
/// where that was told before.
template <class Call>
long while_they_come(std::uint64_t set, std::size_t most, Call call, bool tells_again = true) {
  if (set == 0 || is_leader()) return call();
  have_pending(set, most);  // first: they come in their order
  return while_awaiting(set, tells_again && (pending_here() & set), call);
}

}  // namespace mortise::isolate
