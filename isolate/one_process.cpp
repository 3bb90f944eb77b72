// one_process.cpp: sessions, process groups and stops.
#include "one_process.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>

#include "message.hpp"
#include "raw.hpp"
#include "thread.hpp"

namespace mortise::isolate {
namespace {

bool is_one_of_several() noexcept { return is_thread() && live_threads.load() > 1; }

void tell_once(std::atomic<bool>& told, const char* call) noexcept {
  if (is_one_of_several() && !told.exchange(true)) say("%s reaches the calling thread's process only, not the other threads", call);
}

int answer(long result) noexcept { return failed(result) ? (errno = static_cast<int>(-result), -1) : static_cast<int>(result); }

}  // namespace

pid_t new_session() noexcept {
  static constinit std::atomic<bool> told{false};
  const long session = raw_syscall(SYS_setsid);
  if (!failed(session)) tell_once(told, "setsid");
  return answer(session);
}

int set_process_group(pid_t pid, pid_t group) noexcept {
  static constinit std::atomic<bool> told{false};
  const long result = raw_syscall(SYS_setpgid, pid, group);
  if (!failed(result) && (pid == 0 || find_thread_by_pid(pid))) tell_once(told, "setpgid");
  return answer(result);
}

void tell_of_stop(int signal) noexcept {
  static constinit std::atomic<bool> told{false};
  if (signal == SIGSTOP) tell_once(told, "raise(SIGSTOP)");
}

}  // namespace mortise::isolate
