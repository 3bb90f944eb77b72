// limits.cpp: in the calling thread first, where it may be refused; then in all. New threads have their creator's.
#include "limits.hpp"

#include <cerrno>

#include "raw.hpp"
#include "rendezvous.hpp"
#include "thread.hpp"

namespace mortise::isolate {
namespace {

struct Limit {
  int resource;
  rlimit limit;
};

void apply(void* argument) {
  const Limit l = *static_cast<const Limit*>(argument);  // the kernel reads memory that this thread has
  raw_syscall(SYS_prlimit64, 0, l.resource, as_long(&l.limit), 0);
}

bool is_program(pid_t pid) noexcept { return pid == 0 || find_thread_by_pid(pid); }

}  // namespace

int exchange_limit(pid_t pid, __rlimit_resource resource, const rlimit* limit, rlimit* old) noexcept {
  const bool for_all = limit && is_thread() && is_program(pid);
  const long result = raw_syscall(SYS_prlimit64, for_all ? 0 : pid, resource, as_long(limit), as_long(old));
  if (failed(result)) return errno = static_cast<int>(-result), -1;
  if (Limit l{resource, for_all ? *limit : rlimit{}}; for_all) everywhere(&apply, &l);
  return 0;
}

int set_limit(__rlimit_resource_t resource, const rlimit* limit) noexcept {
  return exchange_limit(0, static_cast<__rlimit_resource>(resource), limit, nullptr);
}

}  // namespace mortise::isolate
