// exec.cpp: exec from the leader ends the other threads first; from another thread the leader is asked to do it,
// because the program's process id is the leader's.
#include "exec.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include "descriptors.hpp"
#include "end.hpp"
#include "exec_check.hpp"
#include "lock.hpp"
#include "message.hpp"
#include "queue_limit.hpp"
#include "raw.hpp"
#include "record_locks.hpp"
#include "rendezvous.hpp"
#include "signal_pass.hpp"
#include "signal_wait.hpp"
#include "signals.hpp"
#include "thread.hpp"

namespace mortise::isolate {
namespace {

/// Who execs keeps its own ways of being scheduled.
class Scheduling {
 public:
  void note() noexcept {
    has_cpus_ = !failed(raw_syscall(SYS_sched_getaffinity, 0, sizeof cpus_, as_long(&cpus_)));
    has_way_ = !failed(raw_syscall(SYS_sched_getattr, 0, as_long(way_), sizeof way_, 0));
  }
  void take() const noexcept {
    if (has_cpus_) raw_syscall(SYS_sched_setaffinity, 0, sizeof cpus_, as_long(&cpus_));
    if (has_way_) raw_syscall(SYS_sched_setattr, 0, as_long(way_), 0);
  }

 private:
  bool has_cpus_ = false, has_way_ = false;
  cpu_set_t cpus_{};
  std::uint64_t way_[6]{};  // the kernel's struct sched_attr in its first form, which tells its size itself
};

struct Request {
  Exec exec;
  std::uint64_t mask;
  Scheduling scheduling{};
};

long exec_now(const Exec& e) noexcept {
  if (e.folder == AT_FDCWD && e.flags == 0)
    return raw_syscall(SYS_execve, as_long(e.path), as_long(e.arguments), as_long(e.environment));
  return raw_syscall(SYS_execveat, e.folder, as_long(e.path), as_long(e.arguments), as_long(e.environment), e.flags);
}

/// Runs in the leader: all of the request's memory is shared, so it can be read after its thread was ended.
void exec_in_leader(void* argument) {
  if (!is_leader()) return;
  const Request r = *static_cast<const Request*>(argument);
  queue_lock().acquire();  // the watchdog, which stays, would wait for ever for a thread that ended with it
  stop_other_threads();
  queue_lock().release();
  record_lock().reset();
  r.scheduling.take();
  have_all_signals_back();  // what is pending stays so
  widen_queue();
  keep_locks_over_exec(true);
  restore_signals(r.mask);
  const long error = exec_now(r.exec);
  say("exec of %s failed (error %d) when the other threads had been ended for it", r.exec.path, static_cast<int>(-error));
  raw_syscall(SYS_exit_group, 127);
}

/// Returns -errno.
long exec_alone(const Exec& e) noexcept {
  // Searches along PATH try many: what is done for locks is done once.
  const bool possible = why_exec_fails(e) == 0;
  if (possible) {
    have_queue_for_good();
    widen_queue();
    wait_for_ended_threads();  // record locks go with the table of descriptors that they were taken in
    keep_locks_over_exec(true);
  }
  const long error = exec_now(e);
  if (possible) keep_locks_over_exec(false);
  return error;
}

int run(const Exec& e) noexcept {
  const bool only_asks = e.flags & kOnlyCheck;
  const bool alone = is_leader() && live_threads.load() == 1;
  const long error = !is_thread() || only_asks ? exec_now(e) : alone ? exec_alone(e) : why_exec_fails(e);
  // A file that cannot be executed must leave the program as it is.
  if (error != 0) return errno = static_cast<int>(-error), -1;
  if (only_asks) return 0;
  stop_passing_on();
  everywhere(&leave_signals, nullptr);
  Request r{e, block_signals()};
  r.scheduling.note();
  if (is_leader()) exec_in_leader(&r);
  restore_signals(r.mask);  // others may be publishing
  everywhere(&exec_in_leader, &r);
  for (;;) raw_syscall(SYS_pause);
}

}  // namespace

int execute(const char* path, char* const* arguments, char* const* environment) noexcept {
  return run({AT_FDCWD, path, arguments, environment, 0});
}

int execute_at(int folder, const char* path, char* const* arguments, char* const* environment, int flags) noexcept {
  return run({folder, path, arguments, environment, flags});
}

int execute_descriptor(int fd, char* const* arguments, char* const* environment) noexcept {
  if (fd < 0 || !arguments || !environment) return errno = EINVAL, -1;
  return run({fd, "", arguments, environment, AT_EMPTY_PATH});
}

}  // namespace mortise::isolate
