// children.cpp: reads /proc/PID/task/PID/children of every thread, "NUMBER NUMBER ...": threads' processes stand there, too, among main's.
#include "children.hpp"

#include <cerrno>
#include <fcntl.h>
#include <pthread.h>

#include "actions.hpp"
#include "cancel.hpp"
#include "descriptors.hpp"
#include "proc.hpp"
#include "raw.hpp"
#include "thread.hpp"

namespace mortise::isolate {
namespace {

long open_children_of(int pid) noexcept {
  char path[64], end[40];
  format_path(end, "/task/", pid, "/children");
  format_path(path, "/proc/", pid, end);
  return open_beyond_limit(SYS_open, as_long(path), O_RDONLY | O_CLOEXEC);
}

template <class Visit>
void for_each_child(int parent, Visit visit) noexcept {
  const long fd = open_children_of(parent);
  if (failed(fd)) return;
  char text[1024];
  int pid = 0;
  for (long got; (got = raw_syscall(SYS_read, fd, as_long(text), sizeof text)) > 0;)
    for (long i = 0; i < got; ++i) {
      if (text[i] >= '0' && text[i] <= '9') {
        pid = pid * 10 + (text[i] - '0');
      } else if (pid > 0) {
        visit(pid);
        pid = 0;
      }
    }
  raw_syscall(SYS_close, fd);
}

bool has_ended(int pidfd) noexcept {
  pollfd end{pidfd, POLLIN, 0};
  return raw_syscall(SYS_poll, as_long(&end), 1, 0) > 0;
}

void close_all(void* ends) { static_cast<Ends*>(ends)->close(); }

}  // namespace

void Ends::add(int pid) noexcept {
  any_ = true;
  const long pidfd = open_beyond_limit(SYS_pidfd_open, pid);
  if (pidfd == -ESRCH) ended_ = pid;  // whoever waited for it as well was quicker
  if (failed(pidfd)) return;
  if (count_ < kMost) {
    descriptors_[count_] = {static_cast<int>(pidfd), POLLIN, 0};
    pids_[count_++] = pid;
    return;
  }
  if (has_ended(static_cast<int>(pidfd))) ended_ = pid;
  raw_syscall(SYS_close, pidfd);
}

void Ends::add_children(int group) noexcept {
  for (int i = 0; i < thread_records(); ++i) {
    const Thread& t = threads[i];
    const int parent = t.in_use.load() && t.ended.load() == 0 ? t.pid.load() : 0;
    if (parent <= 0) continue;
    for_each_child(parent, [&](int pid) {
      if (!find_thread_by_pid(pid) && (group == 0 || raw_syscall(SYS_getpgid, pid) == group)) add(pid);
    });
  }
}

int Ends::wait(int milliseconds) {
  if (ended_) return ended_;
  const unsigned before = calls_ended();
  long result;
  pthread_cleanup_push(&close_all, this);
  do {
    const long ends = as_long(descriptors_);
    result = milliseconds == 0 ? raw_syscall(SYS_poll, ends, count_, 0) : cancellable_call(SYS_poll, ends, count_, milliseconds);
  } while (result == -EINTR && calls_ended() == before);
  pthread_cleanup_pop(0);
  for (int i = 0; i < count_ && result > 0; ++i)
    if (descriptors_[i].revents) return pids_[i];
  return result == -EINTR ? -EINTR : 0;
}

void Ends::close() noexcept {
  for (int i = 0; i < count_; ++i) raw_syscall(SYS_close, descriptors_[i].fd);
  count_ = ended_ = 0;
  any_ = false;
}

}  // namespace mortise::isolate
