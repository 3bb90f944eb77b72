// thread.cpp: the table of threads.
#include "thread.hpp"

#include "message.hpp"

namespace mortise::isolate {

__thread Thread* self = nullptr;
constinit Thread threads[kThreadsMax]{};
constinit std::atomic<std::uint32_t> address_spaces{1};
constinit std::atomic<std::uint32_t> live_threads{0};
constinit Thread* leader = &threads[0];

namespace {
constinit int top_index = 1;  // records above were never used: searches stop here
constinit std::atomic<bool> limit_told{false};
constinit Lock table_lock;
}  // namespace

int thread_records() noexcept { return shared(top_index).load(std::memory_order_acquire); }

Thread* find_thread(pthread_t handle) noexcept {
  for (int i = 0; i < thread_records(); ++i) {
    Thread& t = threads[i];
    if (t.in_use.load(std::memory_order_acquire) && handle_of(t) == handle &&
        !(t.gone.load() & kReleased && t.ended.load()))
      return &t;
  }
  return nullptr;
}

Thread* find_thread_by_pid(int pid) noexcept {
  for (int i = 0; i < thread_records(); ++i)
    if (threads[i].in_use.load(std::memory_order_acquire) && threads[i].pid.load() == pid) return &threads[i];
  return nullptr;
}

Thread* take_thread() noexcept {
  static const long limit = setting_number("MORTISE_THREADS_MAX", kThreadsMax, 2, kThreadsMax);
  Held held(table_lock);
  for (int i = 1; i < limit; ++i) {
    Thread& t = threads[i];
    if (t.in_use.load(std::memory_order_relaxed)) continue;
    t.index = i;
    t.in_use.store(true, std::memory_order_release);
    if (i >= top_index) shared(top_index).store(i + 1, std::memory_order_release);
    return &t;
  }
  if (!limit_told.exchange(true))
    say("%d threads live at once: pthread_create answers EAGAIN; raise MORTISE_THREADS_MAX (at most %d)",
        static_cast<int>(limit), kThreadsMax);
  return nullptr;
}

void let_go(Thread& t, ThreadFlag flag) noexcept {
  const std::uint32_t before = t.gone.fetch_or(flag, std::memory_order_acq_rel);
  constexpr std::uint32_t kAll = kReleased | kReaped | kMade;
  if ((before | flag) == kAll && before != kAll)
    t.in_use.store(false, std::memory_order_release);
}

void forget_other_threads() noexcept {
  table_lock.reset();
  for (int i = 0; i < top_index; ++i) {
    if (&threads[i] == self) continue;
    threads[i].pid.store(0, std::memory_order_relaxed);
    threads[i].in_use.store(false, std::memory_order_relaxed);
  }
  leader = self;
  live_threads.store(1, std::memory_order_relaxed);
}

}  // namespace mortise::isolate
