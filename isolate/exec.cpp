// exec.cpp: exec from the leader ends the other threads first; from another thread the leader is asked to do it,
// because the program's process id is the leader's.
#include "exec.hpp"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

#include "descriptors.hpp"
#include "end.hpp"
#include "lock.hpp"
#include "raw.hpp"
#include "record_locks.hpp"
#include "rendezvous.hpp"
#include "signals.hpp"
#include "thread.hpp"

namespace mortise::isolate {
namespace {

struct Request {
  const char* path;
  char* const* arguments;
  char* const* environment;
  std::uint64_t mask;
};

long exec_now(const Request& r) noexcept {
  return raw_syscall(SYS_execve, as_long(r.path), as_long(r.arguments), as_long(r.environment));
}

/// Runs in the leader: all of the request's memory is shared, so it can be read after its thread was ended.
void exec_in_leader(void* argument) {
  if (!is_leader()) return;
  const Request r = *static_cast<const Request*>(argument);
  stop_other_threads();
  reset_record_lock();
  keep_locks_over_exec(true);
  restore_signals(r.mask);
  exec_now(r);
  raw_syscall(SYS_exit_group, 127);  // the file could be executed a moment ago
}

}  // namespace

int execute(const char* path, char* const* arguments, char* const* environment) noexcept {
  Request r{path, arguments, environment, 0};
  const bool a_thread = self && raw_getpid() == self->pid.load();  // and not a forked or spawned child
  const bool alone = a_thread && is_leader() && live_threads.load() == 1;
  // A file that cannot be executed must leave the program as it is: searches along PATH try many.
  const bool possible = !failed(raw_syscall(SYS_faccessat, AT_FDCWD, as_long(path), X_OK));
  if (!a_thread || alone || !possible) {
    if (alone && possible) {
      wait_for_ended_threads();  // record locks go with the table of descriptors that they were taken in
      keep_locks_over_exec(true);
    }
    const long error = exec_now(r);
    if (alone && possible) keep_locks_over_exec(false);
    return errno = static_cast<int>(-error), -1;
  }
  r.mask = block_signals();
  if (is_leader()) {
    restore_signals(r.mask);
    exec_in_leader(&r);
  }
  restore_signals(r.mask);
  everywhere(&exec_in_leader, &r);
  for (;;) raw_syscall(SYS_pause);
}

}  // namespace mortise::isolate
