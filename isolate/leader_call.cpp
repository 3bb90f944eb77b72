// leader_call.cpp: one request at a time, in memory that every address space has; a caller's own might be a mapping that is its alone.
#include "leader_call.hpp"

#include <atomic>
#include <cstring>

#include "quiet.hpp"
#include "raw.hpp"
#include "thread.hpp"
#include "watchdog.hpp"

namespace mortise::isolate {
namespace {

enum State : std::uint32_t { kNone, kAsked, kAnswered };
constexpr std::size_t kMost = 256;

constinit Lock lock;  // of Answering
constinit std::atomic<std::uint32_t> state{kNone};
using Work = long (*)(void*);
constinit Work wanted = nullptr;
alignas(16) constinit std::byte memory[kMost]{};
constinit long result = 0;

}  // namespace

long in_leader(long (*what)(void*), void* argument, std::size_t bytes) noexcept {
  if (bytes > kMost || !is_thread() || is_leader() || !has_watchdog()) return what(argument);
  Answering held(lock);
  wanted = what;
  std::memcpy(memory, argument, bytes);
  state.store(kAsked);
  poke_watchdog();
  while (state.load() != kAnswered) futex_wait(&state, kAsked);
  std::memcpy(argument, memory, bytes);
  return result;
}

void answer_leader_call() noexcept {
  if (state.load() != kAsked) return;
  result = wanted(memory);
  state.store(kAnswered);
  futex_wake(&state, kEveryone);
}

void forget_leader_call() noexcept {
  lock.reset();
  state.store(kNone);
}

}  // namespace mortise::isolate
