// signal_masks.cpp: reads /proc/PID/status: "ShdPnd: 16 hexadecimal digits", "SigBlk: ...".
#include "signal_masks.hpp"

#include <atomic>
#include <csignal>
#include <cstring>
#include <ctime>

#include "proc.hpp"
#include "raw.hpp"
#include "signal_marks.hpp"
#include "thread.hpp"

namespace mortise::isolate {
namespace {

struct Masks {
  std::uint64_t pending = 0, own_pending = 0, blocked = ~0ull, handled = 0, ignored = ~0ull;  // where the system does not tell
};

std::uint64_t read_mask(const char* text, const char* name, std::uint64_t otherwise) noexcept {
  const char* at = std::strstr(text, name);
  if (!at) return otherwise;
  at += std::strlen(name) + 1;  // behind a tab
  return read_number(at, 16);
}

Masks masks_of(int pid) noexcept {
  char text[4096];
  if (!read_of_process(pid, "status", text, sizeof text)) return {};
  return {read_mask(text, "ShdPnd:", 0), read_mask(text, "SigPnd:", 0), read_mask(text, "SigBlk:", ~0ull), read_mask(text, "SigCgt:", 0),
          read_mask(text, "SigIgn:", ~0ull)};
}

bool lives(const Thread& t) noexcept { return t.in_use.load() && t.pid.load() > 0 && t.ended.load() == 0; }

constinit std::atomic<std::uint64_t> stopped_pending{0};
constinit std::uint64_t lets_in[kThreadsMax / 64]{};  // the watchdog's: a bit for each thread that lets one of them in

constinit std::uint64_t blocked_before = 0;  // the watchdog's: by the leader, when it looked last

/// The leader's; what it has begun to block it may block for the length of a call of the runtime: that is looked at twice.
Masks masks_of_leader() noexcept {
  constexpr timespec kMoment{0, 300'000};
  Masks main = masks_of(leader->pid.load());
  if (main.blocked & ~blocked_before) {
    raw_syscall(SYS_nanosleep, as_long(&kMoment), 0);
    main.blocked &= masks_of(leader->pid.load()).blocked;
  }
  blocked_before = main.blocked;
  return main;
}

Takes let_in_of(int pid, std::uint64_t waits_for) noexcept {
  const Masks m = masks_of(pid);
  const std::uint64_t let_in = ~m.blocked & ~waits_for;
  constexpr std::uint64_t kRuntimes = bit_of(SIGSEGV) | bit_of(32) | bit_of(33);
  const bool has_one = m.own_pending & let_in & ~kRuntimes;
  return {let_in, has_one ? 0 : let_in & ~m.own_pending};
}

}  // namespace

Elsewhere handled_elsewhere() noexcept {
  // The runtime's own; and whoever handles the end of a child waits for it, which is the leader's to do.
  constexpr std::uint64_t kNever = bit_of(SIGSEGV) | bit_of(SIGCHLD) | bit_of(32) | bit_of(33);
  const Masks main = masks_of_leader();
  // By default these do nothing, or nothing that a thread could do for the program.
  constexpr std::uint64_t kNoEnd = bit_of(SIGCONT) | bit_of(SIGSTOP) | bit_of(SIGTSTP) | bit_of(SIGTTIN) | bit_of(SIGTTOU) | bit_of(SIGURG) | bit_of(SIGWINCH);
  const std::uint64_t stopped = main.blocked & (main.handled | ~(main.ignored | kNoEnd)) & ~kNever;
  stopped_pending.store(stopped & main.pending);
  std::uint64_t let_in = 0;
  for (int i = 0; i < thread_records(); ++i) {
    const std::uint64_t own = stopped ? let_in_by(threads[i]).any & stopped : 0, place = 1ull << (i % 64);
    lets_in[i / 64] = own ? lets_in[i / 64] | place : lets_in[i / 64] & ~place;
    let_in |= own;
  }
  return {stopped & let_in, stopped & ~let_in};
}

Takes let_in_by(const Thread& t) noexcept {
  if (&t == leader || !lives(t)) return {};
  return let_in_of(t.pid.load(), t.announced.load());
}

std::uint64_t pending_and_stopped() noexcept { return stopped_pending.load(std::memory_order_relaxed); }

void none_is_pending(std::uint64_t signals) noexcept { stopped_pending.fetch_and(~signals); }

Takes let_in_by_leader() noexcept { return let_in_of(leader->pid.load(), 0); }

bool let_some_in(const Thread& t) noexcept { return lets_in[t.index / 64] >> (t.index % 64) & 1; }

}  // namespace mortise::isolate
