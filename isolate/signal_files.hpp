// signal_files.hpp: signalfd in any thread tells of signals that were sent to the program.
//
// The kernel lets a reader have what is pending for its own process. What is sent to the program is pending for the leader's; while another
// thread reads from such a descriptor, or waits for it, it has these signals passed on to it, as in sigwait (signal_wait.hpp).
#pragma once

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <poll.h>
#include <sys/types.h>

namespace mortise::isolate {

/// Replacement of signalfd.
int make_signal_file(int fd, const sigset_t* set, int flags) noexcept;

/// Whether it was one when it was made; cheap.
bool may_be_signal_file(int fd) noexcept;

/// read, if it is one: false otherwise, and nothing is done. A point of cancellation.
bool read_signals(int fd, void* to, std::size_t bytes, ssize_t& got);

/// While one lives, signals come to the calling thread that make any of these readable.
class SignalsComeHere {
 public:
  SignalsComeHere(const pollfd* descriptors, nfds_t count) noexcept;
  SignalsComeHere(std::uint64_t set, std::size_t most) noexcept;  // as many as can be read now
  explicit SignalsComeHere(int epoll) noexcept;
  ~SignalsComeHere();
  SignalsComeHere(const SignalsComeHere&) = delete;

 private:
  void come(std::uint64_t set, std::size_t most) noexcept;

  std::uint64_t awaited_ = 0;
  bool come_ = false;
};

}  // namespace mortise::isolate
