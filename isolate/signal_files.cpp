// signal_files.cpp: what a descriptor tells of is written in /proc/self/fdinfo: "sigmask: 16 hexadecimal digits".
//
//   leader's process   pending -- at once, for what was sent before ----> the thread: pending there, and readable
//                              -- by the watchdog, while it waits ------>
#include "signal_files.hpp"

#include <cerrno>
#include <cstring>
#include <sys/signalfd.h>

#include "actions.hpp"
#include "cancel.hpp"
#include "proc.hpp"
#include "raw.hpp"
#include "signal_marks.hpp"
#include "signal_wait.hpp"
#include "signals.hpp"
#include "thread.hpp"
#include "watchdog.hpp"

namespace mortise::isolate {
namespace {

constexpr int kFilesMax = 64;
constexpr long kMaskBytes = 8;

constinit std::atomic<int> files[kFilesMax]{};  // numbers and one; those that have been closed are found out when they are used
constinit std::atomic<int> file_count{0};

void note_file(int fd) noexcept {
  for (auto& file : files)
    if (file.load() == fd + 1) return;
  for (auto& file : files)
    if (int none = 0; file.compare_exchange_strong(none, fd + 1)) {
      file_count.fetch_add(1);
      return;
    }
}

void forget_file(int fd) noexcept {
  for (auto& file : files)
    if (int noted = fd + 1; file.compare_exchange_strong(noted, 0)) file_count.fetch_sub(1);
}

/// What the kernel took for a number with sigqueue()'s value, at the places that these have there, is what belongs to `code`.
void tell_as_sent(signalfd_siginfo& told, int code) noexcept {
  const std::int32_t value = told.ssi_int;
  told.ssi_code = code;
  told.ssi_ptr = 0, told.ssi_int = 0;
  if (told.ssi_signo == SIGCHLD && code > 0) told.ssi_status = value;
  if (told.ssi_signo == SIGCHLD || code <= 0 || code == SI_KERNEL) return;
  told.ssi_band = told.ssi_pid, told.ssi_fd = value;  // of a file that has become ready
  told.ssi_pid = told.ssi_uid = 0;
}

/// As they were sent; without copies that have not come by way of the leader, to whom all are sent. How many are left.
std::size_t as_sent(signalfd_siginfo* list, std::size_t count) noexcept {
  std::size_t left = 0;
  for (std::size_t i = 0; i < count; ++i) {
    siginfo_t info{};
    info.si_signo = static_cast<int>(list[i].ssi_signo);
    info.si_errno = list[i].ssi_errno;
    info.si_code = list[i].ssi_code;
    info.si_value.sival_ptr = reinterpret_cast<void*>(list[i].ssi_ptr);
    if (!is_leader() && is_sent_to_group(info)) continue;
    unmark_passed_on(info);
    list[left] = list[i];
    list[left].ssi_errno = info.si_errno;
    if (info.si_code != list[i].ssi_code) tell_as_sent(list[left], info.si_code);
    ++left;
  }
  return left;
}

}  // namespace

int make_signal_file(int fd, const sigset_t* set, int flags) noexcept {
  const long made = raw_syscall(SYS_signalfd4, fd, as_long(set), kMaskBytes, flags);
  if (failed(made)) return errno = static_cast<int>(-made), -1;
  note_file(static_cast<int>(made));
  return static_cast<int>(made);
}

std::uint64_t told_by(int fd) noexcept {
  char text[512];
  const char* at = read_of_descriptor(fd, text, sizeof text) ? std::strstr(text, "sigmask:") : nullptr;
  if (!at) return forget_file(fd), 0;
  at += std::strlen("sigmask:") + 1;  // behind a tab
  return read_number(at, 16);
}

bool is_noted_file(int fd) noexcept {
  if (file_count.load(std::memory_order_relaxed) == 0) return false;
  for (const auto& file : files)
    if (file.load(std::memory_order_relaxed) == fd + 1) return true;
  return false;
}

bool may_be_signal_file(int fd) noexcept { return is_noted_file(fd) && is_thread(); }

bool read_signals(int fd, void* to, std::size_t bytes, ssize_t& got) {
  constexpr std::size_t kOne = sizeof(signalfd_siginfo);
  const std::uint64_t set = told_by(fd);
  if (set == 0) return false;
  const long result = while_they_come(set, bytes / kOne, [&] {
    for (;;) {
      const long read = until_interrupted([&] { return cancellable_call(SYS_read, fd, as_long(to), static_cast<long>(bytes)); });
      if (failed(read)) return read;
      const std::size_t left = as_sent(static_cast<signalfd_siginfo*>(to), static_cast<std::size_t>(read) / kOne);
      if (left > 0) return static_cast<long>(left * kOne);
      if (std::uint64_t announced = self->announced.load(); !is_leader()) await_signals(&announced);  // no other was to come before it
    }
  });
  got = failed(result) ? (errno = static_cast<int>(-result), -1) : result;
  return true;
}

std::uint64_t told_by(const pollfd* descriptors, nfds_t count) noexcept {
  std::uint64_t set = 0;
  for (nfds_t i = 0; i < count; ++i)
    if ((descriptors[i].events & POLLIN) && may_be_signal_file(descriptors[i].fd)) set |= told_by(descriptors[i].fd);
  return set;
}

std::uint64_t told_by(const fd_set* descriptors, int count) noexcept {
  constexpr int kBits = 8 * sizeof descriptors->fds_bits[0];
  std::uint64_t set = 0;
  if (!descriptors || file_count.load(std::memory_order_relaxed) == 0 || !is_thread()) return 0;
  for (const auto& file : files) {
    const int fd = file.load() - 1;
    if (fd >= 0 && fd < count && (descriptors->fds_bits[fd / kBits] >> (fd % kBits) & 1)) set |= told_by(fd);
  }
  return set;
}

}  // namespace mortise::isolate
