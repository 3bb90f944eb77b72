// attributes.cpp: detach state, signal mask, processors and scheduling of a new thread.
//
// Processors and scheduling are the kernel's to grant: the new thread asks for them before anything of the program runs in it, and its
// creator, which has to answer with the error, waits. Threads made without them, nearly all, are not waited for.
#include "attributes.hpp"

#include <cerrno>
#include <cstring>
#include <sched.h>

#include "lock.hpp"
#include "masks.hpp"
#include "raw.hpp"

namespace mortise::isolate {
namespace {

constexpr std::uint32_t kNotYet = ~0u;

/// Without an affinity of its own the attribute answers "every CPU there could be", to the last byte that it is asked for; behind a
/// set of its own there are zeros.
bool get_affinity(const pthread_attr_t* attributes, Thread& t) noexcept {
  std::uint64_t cpus[2 * kProcessorsMost / 64];
  if (pthread_attr_getaffinity_np(attributes, sizeof cpus, reinterpret_cast<cpu_set_t*>(cpus)) != 0) return false;
  std::memcpy(t.affinity, cpus, sizeof t.affinity);
  return cpus[sizeof cpus / sizeof cpus[0] - 1] != ~0ul;
}

bool get_scheduling(const pthread_attr_t* attributes, int& policy, sched_param& parameters) noexcept {
  int inherits = PTHREAD_INHERIT_SCHED;
  pthread_attr_getinheritsched(attributes, &inherits);
  if (inherits != PTHREAD_EXPLICIT_SCHED || pthread_attr_getschedpolicy(attributes, &policy) != 0 ||
      pthread_attr_getschedparam(attributes, &parameters) != 0)
    return false;
  const bool needs_priority = policy == SCHED_FIFO || policy == SCHED_RR;
  // As glibc: the creator's.
  if (needs_priority && parameters.sched_priority == 0) raw_syscall(SYS_sched_getparam, 0, as_long(&parameters));
  return true;
}

bool is_asked_for(const Thread& t) noexcept { return t.has_affinity || t.has_scheduling; }

long ask_kernel(const Thread& t) noexcept {
  long result = 0;
  if (t.has_affinity) result = raw_syscall(SYS_sched_setaffinity, 0, sizeof t.affinity, as_long(t.affinity));
  if (!failed(result) && t.has_scheduling) result = raw_syscall(SYS_sched_setscheduler, 0, t.policy, as_long(&t.scheduling));
  return result;
}

}  // namespace

Attributes::Attributes(const pthread_attr_t* given) noexcept : used_(given ? given : &defaults_) {
  if (!given && pthread_getattr_default_np(&defaults_) != 0) pthread_attr_init(&defaults_);
}
Attributes::~Attributes() {
  if (used_ == &defaults_) pthread_attr_destroy(&defaults_);
}

void read_attributes(Thread& t, const pthread_attr_t* attributes) noexcept {
  int detach_state = PTHREAD_CREATE_JOINABLE;
  pthread_attr_getdetachstate(attributes, &detach_state);
  sigset_t mask;
  if (pthread_attr_getsigmask_np(attributes, &mask) == 0) t.mask = blockable(*reinterpret_cast<std::uint64_t*>(&mask));
  t.has_affinity = get_affinity(attributes, t);
  t.has_scheduling = get_scheduling(attributes, t.policy, t.scheduling);
  t.refused.store(is_asked_for(t) ? kNotYet : 0);
  t.detached.store(detach_state == PTHREAD_CREATE_DETACHED);
  t.gone.store(t.detached.load() ? std::uint32_t{kReleased} : 0u);
}

bool take_attributes(Thread& t) noexcept {
  if (!is_asked_for(t)) return true;
  const long result = ask_kernel(t);
  t.refused.store(failed(result) ? static_cast<std::uint32_t>(-result) : 0);
  futex_wake(&t.refused, 1);
  return !failed(result);
}

int await_attributes(Thread& t) noexcept {
  for (std::uint32_t refused; (refused = t.refused.load()) != 0;) {
    if (refused != kNotYet) return static_cast<int>(refused);
    futex_wait(&t.refused, kNotYet);
  }
  return 0;
}

int thread_attributes(pthread_t handle, pthread_attr_t* out) noexcept {
  Thread* t = find_thread(handle);
  if (!t) return ESRCH;
  if (const int error = pthread_attr_init(out)) return error;
  pthread_attr_setdetachstate(out, t->detached.load() ? PTHREAD_CREATE_DETACHED : PTHREAD_CREATE_JOINABLE);
  pthread_attr_setguardsize(out, t->stack.guard_bytes);
  pthread_attr_setstack(out, t->stack.low + t->stack.guard_bytes, t->stack.bytes - t->stack.guard_bytes);
  int policy = t->policy;
  sched_param scheduling = t->scheduling;
  const bool is_known = pthread_getschedparam(handle, &policy, &scheduling) == 0 || t->has_scheduling;
  if (t->has_scheduling) pthread_attr_setinheritsched(out, PTHREAD_EXPLICIT_SCHED);
  if (is_known) {
    pthread_attr_setschedpolicy(out, policy);
    pthread_attr_setschedparam(out, &scheduling);
  }
  cpu_set_t cpus{};
  const int pid = t->ended.load() ? 0 : t->pid.load();  // its processors now, which as its policy another thread may have changed
  if (pid <= 0 || failed(raw_syscall(SYS_sched_getaffinity, pid, sizeof cpus, as_long(&cpus)))) return 0;
  const int error = pthread_attr_setaffinity_np(out, sizeof cpus, &cpus);
  if (error != 0) pthread_attr_destroy(out);
  return error;
}

}  // namespace mortise::isolate
