// join.cpp: waiting for threads, and the calls that name another thread.
#include "join.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/prctl.h>
#include <threads.h>
#include <unistd.h>

#include "cancel.hpp"
#include "end.hpp"
#include "glibc.hpp"
#include "one_process.hpp"
#include "parents.hpp"
#include "proc.hpp"
#include "raw.hpp"
#include "region.hpp"
#include "rendezvous.hpp"
#include "signals.hpp"
#include "stack.hpp"
#include "thread.hpp"

namespace mortise::isolate {
namespace {

constexpr std::size_t kNameBytes = 16;  // of the kernel, with the final zero

int join(pthread_t handle, void** result, clockid_t clock, const timespec* deadline) {
  Thread* t = find_thread(handle);
  if (!t) return ESRCH;
  if (t == self) return EDEADLK;
  if (t->gone.load() & kReleased) return EINVAL;
  pthread_testcancel();
  while (t->finished.load(std::memory_order_acquire) == 0) {
    if (cancellable_wait(&t->finished, 0, deadline, clock) == -ETIMEDOUT) return ETIMEDOUT;
    pthread_testcancel();
  }
  // The program may reuse its own stack memory at once: then nobody may be running on it any more.
  // And robust mutexes that it held must have been handed on.
  if (t != leader && (t->stack.from_program || t->held_robust))
    for (std::uint32_t gone; !((gone = t->gone.load()) & kReaped);) futex_wait(&t->gone, gone);
  if (result) *result = t->result;
  let_go(*t, kReleased);
  return 0;
}

/// SIGCANCEL and SIGSETXID, which glibc lets no program send.
bool is_of_libc(int signal) noexcept { return signal == 32 || signal == 33; }

siginfo_t queued(int signal, sigval value) noexcept {
  siginfo_t info{};
  info.si_signo = signal;
  info.si_code = SI_QUEUE;
  info.si_pid = program_process();
  info.si_uid = getuid();
  info.si_value = value;
  return info;
}

int alive_pid(const Thread* t) noexcept { return t && t->ended.load() == 0 ? t->pid.load() : 0; }

/// To one thread, by `send`: the kernel's answer.
template <class Send>
long send_to_thread(const Thread& t, int signal, Send send) noexcept {
  if (&t == self) stop_other_threads_before(signal);
  const bool ends = would_end(t, signal);
  const long result = send();
  if (ends && !failed(result)) await_end_by(signal, t);
  return result;
}

/// Of another process the kernel only tells the name.
struct Naming {
  const Thread* of;
  char name[kNameBytes];
  long result = -ENOENT;  // where it has ended, as glibc
};
void take_name(void* argument) {
  Naming& n = *static_cast<Naming*>(argument);
  if (self != n.of) return;
  char name[kNameBytes];  // the kernel reads memory that this thread has
  std::memcpy(name, n.name, sizeof name);
  n.result = raw_syscall(SYS_prctl, PR_SET_NAME, as_long(name));
}

}  // namespace

int join_thread(pthread_t handle, void** result) { return join(handle, result, CLOCK_MONOTONIC, nullptr); }

int try_join_thread(pthread_t handle, void** result) {
  Thread* t = find_thread(handle);
  if (t && t->finished.load(std::memory_order_acquire) == 0) return EBUSY;
  return join_thread(handle, result);
}

int timed_join_thread(pthread_t handle, void** result, const timespec* deadline) {
  return join(handle, result, CLOCK_REALTIME, deadline);
}

int clock_join_thread(pthread_t handle, void** result, clockid_t clock, const timespec* deadline) {
  if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC) return EINVAL;
  return join(handle, result, clock, deadline);
}

int c11_join_thread(pthread_t handle, int* result) {
  void* value = nullptr;
  if (join_thread(handle, &value) != 0) return thrd_error;
  if (result) *result = static_cast<int>(reinterpret_cast<std::intptr_t>(value));
  return thrd_success;
}

int detach_thread(pthread_t handle) noexcept {
  Thread* t = find_thread(handle);
  if (!t) return ESRCH;
  if (t->detached.exchange(true)) return EINVAL;
  let_go(*t, kReleased);
  return 0;
}

int signal_thread(pthread_t handle, int signal) noexcept {
  Thread* t = find_thread(handle);
  if (!t) return ESRCH;
  if (is_of_libc(signal)) return EINVAL;
  const int pid = alive_pid(t);
  if (pid == 0) return 0;  // ended and not joined: as glibc, no error and no effect
  return static_cast<int>(-send_to_thread(*t, signal, [&] { return raw_syscall(SYS_tgkill, pid, pid, signal); }));
}

int signal_thread_or_tell(pthread_t handle, int signal) noexcept {
  return alive_pid(find_thread(handle)) == 0 ? ESRCH : signal_thread(handle, signal);
}

int queue_signal_to_thread(pthread_t handle, int signal, sigval value) noexcept {
  const Thread* const t = find_thread(handle);
  const int pid = alive_pid(t);
  if (pid == 0) return ESRCH;
  if (is_of_libc(signal)) return EINVAL;
  const siginfo_t info = queued(signal, value);
  const auto send = [&] { return raw_syscall(SYS_rt_tgsigqueueinfo, pid, pid, signal, as_long(&info)); };
  return static_cast<int>(-send_to_thread(*t, signal, send));
}

int raise_signal(int signal) noexcept {
  if (signal == SIGABRT) let_into_dump();
  tell_of_stop(signal);
  stop_other_threads_before(signal);
  const long result = raw_syscall(SYS_tgkill, raw_getpid(), raw_gettid(), signal);
  if (!failed(result)) return 0;
  errno = static_cast<int>(-result);
  return -1;
}

int send_to_process(pid_t process, int signal, const siginfo_t* info) noexcept {
  const bool is_program = process > 0 && is_thread() && find_thread_by_pid(process);
  if (is_program) {
    process = leader->pid.load();
    if (is_leader()) stop_other_threads_before(signal);
  }
  const bool ends = is_program && would_end_program(signal);
  const long result = info ? raw_syscall(SYS_rt_sigqueueinfo, process, signal, as_long(info)) : raw_syscall(SYS_kill, process, signal);
  if (ends && !failed(result)) await_end_by(signal, *leader);
  return failed(result) ? (errno = static_cast<int>(-result), -1) : 0;
}

int signal_process(pid_t process, int signal) noexcept { return send_to_process(process, signal, nullptr); }

int queue_signal_to_process(pid_t process, int signal, sigval value) noexcept {
  const siginfo_t info = queued(signal, value);
  return send_to_process(process, signal, &info);
}

int process_of_thread(int process, int thread) noexcept {
  return is_thread() && process == leader->pid.load() && find_thread_by_pid(thread) ? thread : process;
}

int signal_thread_by_id(int process, int thread, int signal) noexcept {
  const int owner = process_of_thread(process, thread);
  const auto send = [&] { return raw_syscall(SYS_tgkill, owner, thread, signal); };
  const Thread* const t = is_thread() && owner == thread ? find_thread_by_pid(thread) : nullptr;
  const long result = t ? send_to_thread(*t, signal, send) : send();
  return failed(result) ? (errno = static_cast<int>(-result), -1) : 0;
}

int thread_cpu_clock(pthread_t handle, clockid_t* out) noexcept {
  const int pid = alive_pid(find_thread(handle));
  if (pid == 0) return ESRCH;
  // The kernel's encodings of the CPU time of a kernel thread, and of a process: of a thread's, another process may not ask.
  *out = (~pid << 3) | (pid == raw_getpid() ? 6 : 2);
  return 0;
}

int set_thread_name(pthread_t handle, const char* name) noexcept {
  const std::size_t bytes = std::strlen(name);
  if (bytes >= kNameBytes) return ERANGE;
  Thread* t = find_thread(handle);
  if (!t) return ESRCH;
  Naming wanted{t, {}};
  std::memcpy(wanted.name, name, bytes);
  if (t == self || !is_thread()) take_name(&wanted);
  else if (alive_pid(t)) everywhere(&take_name, &wanted);
  return static_cast<int>(-wanted.result);
}

int get_thread_name(pthread_t handle, char* out, std::size_t bytes) noexcept {
  if (bytes < kNameBytes) return ERANGE;
  Thread* t = find_thread(handle);
  if (!t) return ESRCH;
  char path[32];
  format_path(path, "/proc/", t->pid.load(), "/comm");  // for each thread a process of its own
  const auto fd = static_cast<int>(raw_syscall(SYS_open, as_long(path), O_RDONLY | O_CLOEXEC));
  if (fd < 0) return -fd;
  const long got = raw_syscall(SYS_read, fd, as_long(out), static_cast<long>(bytes));
  raw_syscall(SYS_close, fd);
  if (got <= 0) return EIO;
  out[got - 1] = '\0';  // over the newline
  return 0;
}

}  // namespace mortise::isolate
