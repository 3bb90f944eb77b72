// tables.cpp: the locks of all tables, in their order.
#include "tables.hpp"

#include "actions.hpp"
#include "epoll_signals.hpp"
#include "fault.hpp"
#include "file_maps.hpp"
#include "lazy_files.hpp"
#include "lock.hpp"
#include "protection.hpp"
#include "queue_limit.hpp"
#include "record_locks.hpp"
#include "region.hpp"
#include "rendezvous.hpp"
#include "share.hpp"
#include "signals.hpp"
#include "windows.hpp"
#include "wiped.hpp"

namespace mortise::isolate {
namespace {

using Get = Lock& (*)() noexcept;
constexpr Get kPublishing[] = {&lazy_lock, &window_lock, &publishing_lock};  // while others publish this thread answers
constexpr Get kQuiet[] = {&file_lock,   &record_lock, &share_lock, &protection_lock, &fault_lock,
                          &action_lock, &wiped_lock,  &epoll_lock, &queue_lock};

template <class Do>
void for_each_quiet(Do what) noexcept {
  for (const Get get : kQuiet) what(get());
  for (int i = 0; i < kArenaCount; ++i) what(arena_lock(i));
}

template <class Do>
void for_each(Do what) noexcept {
  for (const Get get : kPublishing) what(get());
  for_each_quiet(what);
}

}  // namespace

void hold_tables() noexcept {
  for (const Get get : kPublishing) get().acquire();
  block_signals();
  for_each_quiet([](Lock& lock) { lock.acquire(); });
}

void let_go_of_tables() noexcept {
  for_each([](Lock& lock) { lock.release(); });
}

void reset_tables() noexcept {
  for_each([](Lock& lock) { lock.reset(); });
}

}  // namespace mortise::isolate
