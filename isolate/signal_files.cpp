// signal_files.cpp: what a descriptor tells of is written in /proc/self/fdinfo: "sigmask: 16 hexadecimal digits", and of an epoll one
// "tfd: NUMBER events: ... data: ..." for each that it waits for.
//
//   leader's process   pending -- at once, for what was sent before ----> the thread: pending there, and readable
//                              -- by the watchdog, while it waits ------>
//
// An epoll descriptor wakes whoever has put a signalfd into it, so the thread that waits puts it there anew.
#include "signal_files.hpp"

#include <cerrno>
#include <cstring>
#include <sys/epoll.h>
#include <sys/signalfd.h>

#include "actions.hpp"
#include "cancel.hpp"
#include "leader_call.hpp"
#include "proc.hpp"
#include "raw.hpp"
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

/// What a signalfd tells of; 0 where it is none.
std::uint64_t mask_of(int fd) noexcept {
  char text[512];
  const char* at = read_of_descriptor(fd, text, sizeof text) ? std::strstr(text, "sigmask:") : nullptr;
  if (!at) return forget_file(fd), 0;
  at += std::strlen("sigmask:") + 1;  // behind a tab
  return read_number(at, 16);
}

std::uint64_t number_after(const char* line, const char* name, unsigned base) noexcept {
  const char* at = std::strstr(line, name);
  if (!at) return 0;
  for (at += std::strlen(name); *at == ' ';) ++at;
  return read_number(at, base);
}

__thread int woken_by_epoll = -1, woken_by_file = -1;  // the last that this thread has put there

void put_anew(int epoll, int fd, const char* line) noexcept {
  if (woken_by_epoll == epoll && woken_by_file == fd) return;
  epoll_event event{};
  event.events = static_cast<std::uint32_t>(number_after(line, "events:", 16));
  event.data.u64 = number_after(line, "data:", 16);
  if (failed(raw_syscall(SYS_epoll_ctl, epoll, EPOLL_CTL_DEL, fd, as_long(&event)))) return;
  raw_syscall(SYS_epoll_ctl, epoll, EPOLL_CTL_ADD, fd, as_long(&event));
  woken_by_epoll = epoll;
  woken_by_file = fd;
}

struct Pending {
  std::uint64_t set;
  siginfo_t info;
};

long take_pending(void* argument) noexcept {
  Pending& p = *static_cast<Pending*>(argument);
  const timespec at_once{};
  return raw_syscall(SYS_rt_sigtimedwait, as_long(&p.set), as_long(&p.info), as_long(&at_once), kMaskBytes);
}

/// What the program was sent before, as many as may be read now.
void have_pending(std::uint64_t set, std::size_t most) noexcept {
  std::uint64_t here = 0;
  raw_syscall(SYS_rt_sigpending, as_long(&here), kMaskBytes);
  for (Pending p{set, {}}; most > 0 && !(here & set); --most) {
    if (failed(in_leader(&take_pending, p))) return;
    mark_as_passed_on(p.info);
    raw_syscall(SYS_rt_tgsigqueueinfo, raw_getpid(), raw_gettid(), p.info.si_signo, as_long(&p.info));
  }
}

bool is_elsewhere() noexcept { return file_count.load(std::memory_order_relaxed) > 0 && is_thread() && !is_leader(); }

/// As they were sent; without copies that have not come by way of the leader, to whom all are sent. How many are left.
std::size_t as_sent(signalfd_siginfo* list, std::size_t count) noexcept {
  std::size_t left = 0;
  for (std::size_t i = 0; i < count; ++i) {
    siginfo_t info{};
    info.si_signo = static_cast<int>(list[i].ssi_signo);
    info.si_code = list[i].ssi_code;
    info.si_value.sival_ptr = reinterpret_cast<void*>(list[i].ssi_ptr);
    if (!is_leader() && is_sent_to_group(info)) continue;
    unmark_passed_on(info);
    list[left] = list[i];
    if (info.si_code != list[i].ssi_code) list[left].ssi_code = info.si_code, list[left].ssi_ptr = 0, list[left].ssi_int = 0;
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

bool may_be_signal_file(int fd) noexcept {
  if (file_count.load(std::memory_order_relaxed) == 0 || !is_thread()) return false;
  for (const auto& file : files)
    if (file.load(std::memory_order_relaxed) == fd + 1) return true;
  return false;
}

bool read_signals(int fd, void* to, std::size_t bytes, ssize_t& got) {
  constexpr std::size_t kOne = sizeof(signalfd_siginfo);
  const std::uint64_t set = mask_of(fd);
  if (set == 0) return false;
  const SignalsComeHere here(set, bytes / kOne);
  std::size_t left = 0;
  while (left == 0) {
    const long result = until_interrupted([&] { return cancellable_call(SYS_read, fd, as_long(to), static_cast<long>(bytes)); });
    if (failed(result)) return got = (errno = static_cast<int>(-result), -1), true;
    left = as_sent(static_cast<signalfd_siginfo*>(to), static_cast<std::size_t>(result) / kOne);
  }
  got = static_cast<ssize_t>(left * kOne);
  return true;
}

SignalsComeHere::SignalsComeHere(const pollfd* descriptors, nfds_t count) noexcept {
  if (!is_elsewhere()) return;
  std::uint64_t set = 0;
  for (nfds_t i = 0; i < count; ++i)
    if ((descriptors[i].events & POLLIN) && may_be_signal_file(descriptors[i].fd)) set |= mask_of(descriptors[i].fd);
  come(set, 1);
}

SignalsComeHere::SignalsComeHere(std::uint64_t set, std::size_t most) noexcept {
  if (is_elsewhere()) come(set, most);
}

SignalsComeHere::SignalsComeHere(int epoll) noexcept {
  char text[4096];
  if (!is_elsewhere() || !read_of_descriptor(epoll, text, sizeof text)) return;
  std::uint64_t set = 0;
  for (const char* line = text; (line = std::strstr(line, "tfd:")) != nullptr; ++line) {
    const int fd = static_cast<int>(number_after(line, "tfd:", 10));
    const std::uint64_t tells = may_be_signal_file(fd) ? mask_of(fd) : 0;
    if (tells) put_anew(epoll, fd, line);
    set |= tells;
  }
  come(set, 1);
}

void SignalsComeHere::come(std::uint64_t set, std::size_t most) noexcept {
  if (!set) return;
  come_ = true;
  awaited_ = self->awaits.load();
  have_pending(set, most);  // first: they come in their order
  self->awaits.store(awaited_ | set);
  poke_watchdog();
}

SignalsComeHere::~SignalsComeHere() {
  if (!come_) return;
  self->awaits.store(awaited_);
  poke_watchdog();  // it must not take another: to give it back would change the order
}

}  // namespace mortise::isolate
