// rendezvous.cpp: doing one thing in every address space.
//
// `version` counts tasks; each thread's `applied` says how far it is. A publisher holds the lock until everybody has
// caught up, so no thread is ever more than one task behind: even a thread being created, whose creator (signals
// blocked) holds the publisher up until the newcomer can be seen. The newcomer's record may be one that was looked at
// before, so all are looked at twice; being behind it creates nobody.
#include "rendezvous.hpp"

#include <cerrno>
#include <csignal>
#include <ucontext.h>

#include "lock.hpp"
#include "quiet.hpp"
#include "raw.hpp"
#include "restart.hpp"
#include "signals.hpp"
#include "thread.hpp"
#include "unbroken.hpp"
#include "watch.hpp"

namespace mortise::isolate {
namespace {

constexpr int kSignal = 33;  // glibc's SIGSETXID, of no use to it here: it never sees a second thread

constinit Lock publishing;
constinit std::atomic<std::uint32_t> version{0};
using Task = void (*)(void*);
constinit Task task = nullptr;
constinit void* task_argument = nullptr;

void on_signal(int, siginfo_t*, void* context) {
  const int kept = errno;
  if (self) catch_up_rendezvous(*self);
  if (watching()) answer_watch();
  restart_system_call(*static_cast<ucontext_t*>(context));
  handle_put_off(*static_cast<ucontext_t*>(context));
  errno = kept;
}

void signal_to(const Thread& t) noexcept {
  if (const int pid = t.pid.load(); pid > 0) send_own_signal(pid, kSignal);  // it may have ended since that was asked
}

bool must_wait_for(const Thread& t, std::uint32_t wanted) noexcept {
  return &t != self && t.in_use.load() && t.pid.load() > 0 && t.ended.load() == 0 && t.applied.load() != wanted;
}

void wait_for(Thread& t, std::uint32_t wanted) noexcept {
  while (must_wait_for(t, wanted)) {
    // A look every 10 ms: the thread may have ended instead, or have been made after the signals went out.
    timespec soon{};
    clock_gettime(CLOCK_MONOTONIC, &soon);
    soon.tv_nsec += 10'000'000;
    if (soon.tv_nsec >= 1'000'000'000) soon.tv_sec += 1, soon.tv_nsec -= 1'000'000'000;
    if (futex_wait(&t.applied, wanted - 1, &soon) == -ETIMEDOUT && must_wait_for(t, wanted))
      signal_to(t);
  }
}

}  // namespace

void catch_up_rendezvous(Thread& t) noexcept {
  const std::uint32_t wanted = version.load();
  if (t.applied.load() == wanted) return;
  if (t.ended.load() == 0) task(task_argument);  // nobody waits for one that has ended: what the task is given may be gone
  t.applied.store(wanted);
  futex_wake(&t.applied, kEveryone);
}

void everywhere(void (*what)(void*), void* argument) noexcept {
  Answering held(publishing);  // a handler might publish something itself
  task = what;
  task_argument = argument;
  const std::uint32_t wanted = version.fetch_add(1) + 1;
  self->applied.store(wanted);
  for (int i = 0; i < thread_records(); ++i)
    if (const Thread& t = threads[i]; must_wait_for(t, wanted)) signal_to(t);
  for (int pass = 0; pass < 2; ++pass)
    for (int i = 0; i < thread_records(); ++i) wait_for(threads[i], wanted);
  what(argument);
}

void install_rendezvous() noexcept {
  KernelAction action{};
  action.handler = reinterpret_cast<void*>(&on_signal);
  action.flags = SA_RESTART | SA_SIGINFO;
  action.mask = ~(1ull << (SIGSEGV - 1));  // what a task is given may lie in memory that this thread has not seen yet
  set_action(kSignal, &action, nullptr);
}

Lock& publishing_lock() noexcept { return publishing; }

}  // namespace mortise::isolate
