// What a program calls to shut itself in, or to go to namespaces of its own. The kernel, and whoever wrote the filter, think of the
// program's own threads then: ours, which gives memory back, has gone before a filter comes, and behind it there is none any more. From
// namespaces it goes only where it is in the way: most of these calls succeed beside threads, and some programs make them all the time.
//
// The calls themselves are the kernel's, as in libc. Only isolated threads have a prctl of their own: behind us it is called; where they
// are in front of us it is not ours that is, and beside them no thread of ours gives memory back.
#include <dlfcn.h>
#include <errno.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/prctl.h>

#include "abi/affinity.hpp"
#include "abi/heap.hpp"
#include "mortise/os/isolation.hpp"

namespace mortise::abi {
namespace {

int answer(long result) noexcept {
  if (result >= 0) return static_cast<int>(result);
  errno = static_cast<int>(-result);
  return -1;
}

int call_prctl(int option, const unsigned long (&a)[4]) noexcept {
  if (os::may_be_isolated())
    if (auto* const next = reinterpret_cast<decltype(&::prctl)>(::dlsym(RTLD_NEXT, "prctl"))) return next(option, a[0], a[1], a[2], a[3]);
  return answer(os::syscall(SYS_prctl, option, a[0], a[1], a[2], a[3]));
}

/// What the kernel refuses to a program with threads it refuses before it changes anything: then once more, without ours.
template <class Call> int call_beside(Call&& call) noexcept {
  long result = call();
  if (result == -EINVAL || result == -EUSERS) {  // the latter for a namespace of times
    const KeptAway kept_away;
    result = call();
  }
  return answer(result);
}

/// Of what threads share ours would hold on to what was before: files that the program closes stay open, the file system of a directory
/// that it leaves stays busy, semaphores wait to be given back. With these two namespaces the kernel parts the latter two as well.
constexpr int kHeldOnTo = CLONE_FILES | CLONE_FS | CLONE_NEWNS | CLONE_SYSVSEM | CLONE_NEWIPC;

/// With a namespace of semaphores; to one of mounts nobody goes who shares a directory. Who names no kind leaves it to the file.
bool parts_semaphores(int fd, int type) noexcept {
  const long kinds = type ? type : os::syscall(SYS_ioctl, fd, NS_GET_NSTYPE);
  return kinds > 0 && (kinds & CLONE_NEWIPC);
}
/// Like `call_beside`, but the thread goes first.
template <class Call> int call_alone(Call&& call) noexcept {
  const KeptAway kept_away;
  return answer(call());
}

}  // namespace
}  // namespace mortise::abi

using namespace mortise::abi;

extern "C" {
/// Who installs a filter of system calls without being root gives up new privileges first.
MORTISE_EXPORT int prctl(int option, ...) noexcept {
  va_list list;
  va_start(list, option);
  unsigned long a[4];
  for (unsigned long& argument : a) argument = va_arg(list, unsigned long);
  va_end(list);
  if (option != PR_SET_NO_NEW_PRIVS && option != PR_SET_SECCOMP) return call_prctl(option, a);
  KeptAway kept_away;
  const int result = call_prctl(option, a);
  if (result == 0 && kept_away.for_good()) AffinitySettings<Heap>::shut_in();
  return result;
}
MORTISE_EXPORT int unshare(int flags) noexcept {
  const auto call = [=] { return mortise::os::syscall(SYS_unshare, flags); };
  return flags & kHeldOnTo ? call_alone(call) : call_beside(call);
}
MORTISE_EXPORT int setns(int fd, int type) noexcept {
  const auto call = [=] { return mortise::os::syscall(SYS_setns, fd, type); };
  return parts_semaphores(fd, type) ? call_alone(call) : call_beside(call);
}
}
