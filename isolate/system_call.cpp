// system_call.cpp: the few system calls that mean something else between address spaces.
#include "system_call.hpp"

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <linux/membarrier.h>
#include <sched.h>

#include "callers.hpp"
#include "credentials.hpp"
#include "end.hpp"
#include "exec.hpp"
#include "fork.hpp"
#include "join.hpp"
#include "memory.hpp"
#include "parents.hpp"
#include "raw.hpp"
#include "record_locks.hpp"
#include "refuse.hpp"
#include "thread.hpp"

namespace mortise::isolate {
namespace {

/// Private forms reach the threads of one address space only; these reach all that have registered.
long global_barrier(long command) noexcept {
  switch (command) {
    case MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED:
    case MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE:
      return MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED;
    case MEMBARRIER_CMD_PRIVATE_EXPEDITED:
    case MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE:
      return MEMBARRIER_CMD_GLOBAL_EXPEDITED;
    default:
      return command;
  }
}

template <class T>
T* pointer(long argument) noexcept {
  return reinterpret_cast<T*>(argument);
}

/// What clone3 is given, in its first form.
struct CloneArguments {
  std::uint64_t flags, pidfd, child_number, parent_number, end_signal, stack, stack_bytes, tls;
};

/// A child with a copy of the memory, on this stack: of shared memory the kernel makes none.
bool is_fork(long number, long a, long b, long c, long d, long e, Child& child) noexcept {
  constexpr std::uint64_t kNotAlone = CLONE_VM | CLONE_VFORK, kOnlyThere = ~0ull << 32;  // flags that clone does not have
  if (number == SYS_fork) return true;
  if (number == SYS_clone) child = {a, c, d, e};
  if (number == SYS_clone) return b == 0 && !(static_cast<std::uint64_t>(a) & kNotAlone);
  if (number != SYS_clone3 || b < static_cast<long>(sizeof(CloneArguments))) return false;
  const CloneArguments& w = *pointer<const CloneArguments>(a);
  const std::uint64_t parent = w.flags & CLONE_PIDFD ? w.pidfd : w.parent_number;
  const std::uint64_t flags = w.flags | w.end_signal;
  child = {static_cast<long>(flags), static_cast<long>(parent), static_cast<long>(w.child_number), static_cast<long>(w.tls)};
  return w.stack == 0 && !(w.flags & (kNotAlone | kOnlyThere));
}

/// What this would make, of one address space.
const char* bound_object(long number) noexcept {
  return number == SYS_io_uring_setup ? "io_uring" : number == SYS_io_setup ? "libaio context" : number == SYS_pkey_alloc ? "protection key" : nullptr;
}

bool changes_credentials(long number) noexcept {
  for (const long one : {SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid, SYS_setresgid, SYS_setfsuid, SYS_setfsgid})
    if (number == one) return true;
  return false;
}

/// What is left to the kernel.
long make_call(long number, long a, long b, long c, long d, long e, long f) noexcept {
  if (number == SYS_fcntl) return control_file_raw(static_cast<int>(a), static_cast<int>(b), c);
  return changes_credentials(number) ? change_credentials_here(number, a, b, c) : raw_syscall(number, a, b, c, d, e, f);
}

}  // namespace

long system_call(long number, long a, long b, long c, long d, long e, long f) noexcept {
  if (number == SYS_futex) b &= ~static_cast<long>(FUTEX_PRIVATE_FLAG);
  if (number == SYS_membarrier) a = global_barrier(a);
  if (number == SYS_clone && (a & CLONE_VM) && !(a & CLONE_VFORK)) refuse_own_thread();
  if (number == SYS_mmap || number == SYS_munmap || number == SYS_mremap || number == SYS_madvise || number == SYS_mprotect) {
    const long result = memory_call(is_allocator(__builtin_return_address(0)), number, a, b, c, d, e, f);
    return failed(result) ? (errno = static_cast<int>(-result), -1) : result;
  }
  if (number == SYS_getppid) return parent_process();
  if (number == SYS_prctl && is_of_memory(static_cast<int>(a)))
    return control_process(static_cast<int>(a), static_cast<unsigned long>(b), static_cast<unsigned long>(c),
                           static_cast<unsigned long>(d), static_cast<unsigned long>(e));
  if (Child child; is_fork(number, a, b, c, d, e, child)) return make_child(child);
  if (number == SYS_exit) exit_kernel_thread(static_cast<int>(a));
  if (number == SYS_exit_group) end_process(static_cast<int>(a));
  if (number == SYS_execve) return execute(pointer<const char>(a), pointer<char* const>(b), pointer<char* const>(c));
  if (number == SYS_execveat)
    return execute_at(static_cast<int>(a), pointer<const char>(b), pointer<char* const>(c), pointer<char* const>(d), static_cast<int>(e));
  if (number == SYS_kill) return signal_process(static_cast<pid_t>(a), static_cast<int>(b));
  if (number == SYS_rt_sigqueueinfo && c) return send_to_process(static_cast<pid_t>(a), static_cast<int>(b), pointer<const siginfo_t>(c));
  if (number == SYS_tgkill) return signal_thread_by_id(static_cast<int>(a), static_cast<int>(b), static_cast<int>(c));
  if (number == SYS_rt_tgsigqueueinfo) a = process_of_thread(static_cast<int>(a), static_cast<int>(b));
  if (const char* const object = bound_object(number); object && denies_kernel_object(object)) return errno = ENOSYS, -1;
  if (number == SYS_userfaultfd) refuse_kernel_object("userfaultfd");
  if (number == SYS_getpid) return program_process();
  const long result = make_call(number, a, b, c, d, e, f);
  if (!failed(result)) return result;
  errno = static_cast<int>(-result);
  return -1;
}

}  // namespace mortise::isolate
