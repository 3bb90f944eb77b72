// queue_limit.cpp: RLIMIT_SIGPENDING of the leader's process, where the program may change it at the same time.
#include "queue_limit.hpp"

#include <atomic>
#include <sys/resource.h>

#include "quiet.hpp"
#include "raw.hpp"

namespace mortise::isolate {
namespace {

constinit Lock lock;  // of Quiet: a fork holds it, or the child's memory would tell of another limit than the child was given
constinit rlimit wide{}, narrow{};  // the watchdog's; or of a process that has no other thread any more
constinit std::atomic<bool> is_narrow{false};

bool are_same(const rlimit& a, const rlimit& b) noexcept { return a.rlim_cur == b.rlim_cur && a.rlim_max == b.rlim_max; }

/// Returns what it was.
rlimit exchange(const rlimit* limit) noexcept {
  rlimit old{};
  raw_syscall(SYS_prlimit64, 0, RLIMIT_SIGPENDING, as_long(limit), as_long(&old));
  return old;
}

}  // namespace

void narrow_queue() noexcept {
  Quiet held(lock);
  const rlimit now = exchange(nullptr);
  if (is_narrow.load() && are_same(now, narrow)) return;
  narrow = now;
  narrow.rlim_cur -= now.rlim_cur < kQueueRoom ? now.rlim_cur : kQueueRoom;
  wide = exchange(&narrow);
  is_narrow.store(true);
}

void widen_queue() noexcept {
  if (!is_narrow.load()) return;
  Quiet held(lock);
  if (!is_narrow.exchange(false)) return;
  if (const rlimit now = exchange(&wide); !are_same(now, narrow)) exchange(&now);
}

bool is_queue_narrow() noexcept { return is_narrow.load(); }

Lock& queue_lock() noexcept { return lock; }

}  // namespace mortise::isolate
