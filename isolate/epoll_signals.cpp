// epoll_signals.cpp: what the program has put where; where it was closed instead of taken out, the kernel says so.
#include "epoll_signals.hpp"

#include <cerrno>
#include <cstdint>
#include <poll.h>

#include "actions.hpp"
#include "cancel.hpp"
#include "quiet.hpp"
#include "raw.hpp"
#include "signal_files.hpp"
#include "thread.hpp"

namespace mortise::isolate {
namespace {

constexpr int kEntriesMax = 64;

struct Entry {
  int epoll, fd;
  epoll_event event;
};

constinit Lock lock;  // of Brief: handlers may put something in
constinit Entry entries[kEntriesMax]{};
constinit std::atomic<int> count{0};

long control(int epoll, int operation, int fd, epoll_event* event) noexcept {
  return raw_syscall(SYS_epoll_ctl, epoll, operation, fd, as_long(event));
}

Entry* find(int epoll, int fd) noexcept {
  for (int i = 0; i < count.load(); ++i)
    if (entries[i].epoll == epoll && entries[i].fd == fd) return &entries[i];
  return nullptr;
}

void remove(Entry* e) noexcept {
  const int last = count.fetch_sub(1) - 1;
  *e = entries[last];
}

void note(int epoll, int operation, int fd, const epoll_event& event) noexcept {
  Entry* e = find(epoll, fd);
  if (operation == EPOLL_CTL_DEL) return e ? remove(e) : void();
  if (!e && count.load() == kEntriesMax) return;
  if (!e) e = &entries[count.fetch_add(1)];
  *e = {epoll, fd, event};
}

/// Has the epoll descriptor look whether there is a signal for this thread. False: it is not in there any more.
bool look_again(int epoll, int fd) noexcept {
  Brief held(lock);  // the program changes nothing in between
  Entry* const e = find(epoll, fd);
  if (!e) return false;
  const bool is_exclusive = e->event.events & EPOLLEXCLUSIVE;  // which may not be changed
  if (is_exclusive) control(epoll, EPOLL_CTL_DEL, fd, nullptr);
  if (!failed(control(epoll, is_exclusive ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &e->event))) return true;
  remove(e);
  return false;
}

/// An epoll descriptor, and those of signals that are in it; what has their numbers by now is left out.
struct Looked {
  pollfd descriptors[1 + kEntriesMax];
  nfds_t count = 1;
  std::uint64_t signals = 0;

  explicit Looked(int epoll) noexcept {
    descriptors[0] = {epoll, POLLIN, 0};
    find_files(epoll);
    for (nfds_t i = 1; i < count;)
      if (const std::uint64_t told = told_by(descriptors[i].fd)) ++i, signals |= told;
      else descriptors[i] = descriptors[--count];
  }

 private:
  void find_files(int epoll) noexcept {
    Brief held(lock);
    for (int i = 0; i < isolate::count.load(); ++i)
      if (entries[i].epoll == epoll && (entries[i].event.events & EPOLLIN)) descriptors[count++] = {entries[i].fd, POLLIN, 0};
  }
};

/// Until `end` (a negative one: for ever). The kernel's answer.
long look(Looked& l, epoll_event* events, int most, std::int64_t end, const std::uint64_t* mask) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  for (bool sleeps = false;; sleeps = true) {  // first what is there already
    std::int64_t left = sleeps && end >= 0 ? end - now_ns() : 0;
    if (left < 0) left = 0;
    timespec time{left / kSecond, left % kSecond};
    const bool is_last = left == 0 && (end == 0 || (sleeps && end > 0));
    const long timeout = sleeps && end < 0 ? 0 : as_long(&time);
    const long list = as_long(l.descriptors), size = static_cast<long>(l.count);
    const long ready = cancellable_call(SYS_ppoll, list, size, timeout, as_long(mask), sizeof *mask);
    if (failed(ready)) return ready;
    for (nfds_t i = 1; i < l.count; ++i)
      if (pollfd& d = l.descriptors[i]; d.revents && !look_again(l.descriptors[0].fd, d.fd)) d.fd = -1;
    const long got = raw_syscall(SYS_epoll_wait, l.descriptors[0].fd, as_long(events), most, 0);
    if (got != 0 || is_last) return got;
  }
}

}  // namespace

int control_epoll(int epoll, int operation, int fd, epoll_event* event) noexcept {
  long result;
  if (const bool is_noted = is_noted_file(fd); is_noted || count.load() > 0) {
    epoll_event given{};
    if (event) given = *event;  // here: what may be new to this thread
    Brief held(lock);
    result = control(epoll, operation, fd, event ? &given : nullptr);
    if (!failed(result) && (is_noted || find(epoll, fd))) note(epoll, operation, fd, given);
  } else {
    result = control(epoll, operation, fd, event);
  }
  return failed(result) ? (errno = static_cast<int>(-result), -1) : 0;
}

bool wait_with_signals(int epoll, epoll_event* events, int most, int milliseconds, const std::uint64_t* mask, int& got) {
  if (count.load() == 0 || !is_thread()) return false;
  Looked looked(epoll);
  if (looked.count == 1) return false;
  const std::int64_t end = milliseconds > 0 ? now_ns() + milliseconds * std::int64_t{1'000'000} : milliseconds;
  const auto wait = [&] { return until_interrupted([&] { return look(looked, events, most, end, mask); }); };
  const long result = while_they_come(looked.signals, 1, wait, false);
  got = failed(result) ? (errno = static_cast<int>(-result), -1) : static_cast<int>(result);
  return true;
}

Lock& epoll_lock() noexcept { return lock; }

}  // namespace mortise::isolate
