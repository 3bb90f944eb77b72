// fork.cpp: a child with memory of its own.
//
//   parent (the forking thread)                 child
//   hold the tables, block signals, rseq off
//   go to a private stack  ------------------>  (on the copy of that stack)
//   clone                                       copy every shared range into new files, map them in place
//   wait for the pipe's end                     become the only thread: ids, locks, tables
//   rseq on, back to the own stack, let go      close the pipe; back to the own stack, now a copy
//
// Nothing may run on the shared stack in between: both would run on the same bytes.
#include "fork.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>

#include "actions.hpp"
#include "descriptors.hpp"
#include "end.hpp"
#include "file_maps.hpp"
#include "helper.hpp"
#include "leader_call.hpp"
#include "left_files.hpp"
#include "maps.hpp"
#include "message.hpp"
#include "on_stack.hpp"
#include "orphans.hpp"
#include "parents.hpp"
#include "protection.hpp"
#include "raw.hpp"
#include "record_locks.hpp"
#include "region.hpp"
#include "share.hpp"
#include "signal_pass.hpp"
#include "signals.hpp"
#include "tables.hpp"
#include "thread.hpp"
#include "timers.hpp"
#include "tls.hpp"
#include "watch.hpp"
#include "watchdog.hpp"
#include "wiped.hpp"

namespace mortise::isolate {
namespace {

constexpr std::size_t kTemporaryStack = 64u << 10;

/// Writes the pages of [low, high) that exist in the file behind them; mincore tells without touching any.
bool copy_existing(std::uintptr_t low, std::uintptr_t high, long file, std::uint64_t at) noexcept {
  unsigned char exists[4096];
  while (low < high) {
    std::size_t pages = (high - low) / kPage;
    if (pages > sizeof exists) pages = sizeof exists;
    if (failed(raw_syscall(SYS_mincore, static_cast<long>(low), static_cast<long>(pages * kPage), as_long(exists))))
      return false;
    for (std::size_t i = 0; i < pages;) {
      std::size_t n = i;
      while (n < pages && (exists[n] & 1)) ++n;
      const long bytes = static_cast<long>((n - i) * kPage);
      if (n > i && raw_syscall(SYS_pwrite64, file, static_cast<long>(low + i * kPage), bytes,
                               static_cast<long>(at + i * kPage)) != bytes)
        return false;
      i = n > i ? n : i + 1;
    }
    low += pages * kPage;
    at += pages * kPage;
  }
  return true;
}

/// Replaces [low, low + whole) by a copy of its own, of which [low, low + used) may hold something.
bool unshare(std::uintptr_t low, std::size_t used, std::size_t whole) noexcept {
  const long file = open_memory_file("mortise-forked", whole);
  if (failed(file)) return false;
  // It may be what this runs in: a program may have made its libraries' code writable.
  const int rights = PROT_READ | PROT_WRITE | (holds_code(low, low + used) ? PROT_EXEC : 0);
  raw_syscall(SYS_mprotect, static_cast<long>(low), static_cast<long>(used), rights);
  const bool copied = copy_existing(low, low + used, file, 0);
  const long mapped = copied ? raw_syscall(SYS_mmap, static_cast<long>(low), static_cast<long>(whole),
                                           rights, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file, 0)
                             : -1;
  raw_syscall(SYS_close, file);
  return mapped == static_cast<long>(low);
}

/// Files that are mapped amid the region's memory, which is replaced as a whole: they wait elsewhere meanwhile.
struct Aside {
  long low, bytes, place;
};
constexpr std::size_t kAsideMost = 4096;
constinit Aside aside[kAsideMost]{};
constinit std::size_t aside_count = 0;

bool is_own_memory(const Mapping& m) noexcept {
  constexpr char kOwn[] = "/memfd:mortise-", kProgram[] = "/memfd:mortise-shared";
  return std::strncmp(m.name, kOwn, sizeof kOwn - 1) == 0 && std::strncmp(m.name, kProgram, sizeof kProgram - 1) != 0;
}

void set_files_aside() noexcept {
  aside_count = 0;
  if (!has_files_in_region()) return;
  Maps maps;
  for (Mapping m; maps.next(m);) {
    if (!in_region(m.low) || is_own_memory(m) || aside_count == kAsideMost) continue;
    const long low = static_cast<long>(m.low), bytes = static_cast<long>(m.bytes());
    const auto map_nothing = [bytes](long at, long fixed) {
      return raw_syscall(SYS_mmap, at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);
    };
    const long place = map_nothing(0, 0);
    if (failed(place) || failed(raw_syscall(SYS_mremap, low, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place))) continue;
    map_nothing(low, MAP_FIXED);  // or what exists there could not be asked for
    aside[aside_count++] = {low, bytes, place};
  }
}

void put_files_back() noexcept {
  for (std::size_t i = 0; i < aside_count; ++i)
    raw_syscall(SYS_mremap, aside[i].place, aside[i].bytes, aside[i].bytes, MREMAP_MAYMOVE | MREMAP_FIXED, aside[i].low);
}

bool unshare_everything() noexcept {
  for (std::size_t i = 0; i < shared_range_count; ++i) {
    const SharedRange r = shared_ranges[i];
    if (!unshare(r.low, r.high - r.low, r.high - r.low)) return false;
  }
  set_files_aside();  // no earlier: what it writes is the child's own by now
  for (int i = 0; i < kArenaCount; ++i) {
    if (!unshare(arena_low(i), arena_touched_end(i) - arena_low(i), kArenaBytes)) return false;
    leave_out_of_dumps(i);
  }
  apply_recorded_protections();
  put_files_back();
  return true;
}

/// The child is the program now: the thread that forked is its leader and only thread.
void become_program() noexcept {
  reset_tables();
  reset_tls_lock();
  forget_droppers();
  forget_record_locks();
  count_kept_descriptors();
  reset_ending();
  forget_helper();
  forget_watchdog();
  forget_leader_call();
  forget_orphans();
  forget_passing();
  forget_timers();
  forget_watch();
  take_terminal_signals_back();
  note_parent();
  self->pid.store(raw_getpid());
  forget_other_threads();
  tid_field(self->tcb) = raw_gettid();
  empty_robust_list(self->tcb);
  raw_syscall(SYS_set_robust_list, as_long(robust_head_of(self->tcb)), 24);
  rseq_on();
}

/// In the child, whose memory is its own by now.
void tell_number(const Child& c) noexcept {
  if (c.flags & CLONE_CHILD_SETTID) *reinterpret_cast<int*>(c.child_number) = raw_gettid();
  if (c.flags & CLONE_CHILD_CLEARTID) raw_syscall(SYS_set_tid_address, c.child_number);
}

long fork_on_private_stack(void* wanted) {
  constexpr long kTold = CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
  const Child c = *static_cast<const Child*>(wanted);
  int ends[2];
  if (const long error = open_beyond_limit(SYS_pipe2, as_long(ends), O_CLOEXEC); failed(error)) return error;
  rseq_off();
  const long pid = raw_syscall(SYS_clone, c.flags & ~kTold, 0, c.parent_number, 0, c.tls);
  if (pid == 0) {
    raw_syscall(SYS_close, ends[0]);
    if (!unshare_everything()) {
      say("fork: no memory for the child's copy of the program's memory");
      raw_syscall(SYS_kill, raw_getpid(), SIGKILL);
    }
    become_program();
    wipe();
    tell_number(c);
    raw_syscall(SYS_close, ends[1]);
    return 0;
  }
  raw_syscall(SYS_close, ends[1]);
  char nothing;
  if (!failed(pid))
    while (raw_syscall(SYS_read, ends[0], as_long(&nothing), 1) == -EINTR) {
    }
  raw_syscall(SYS_close, ends[0]);
  rseq_on();
  return pid;
}

}  // namespace

int fork_process() noexcept { return make_child({}); }

int make_child(const Child& child) noexcept {
  if (!self || raw_getpid() != self->pid.load()) {  // a process the program cloned by itself: nothing of ours to copy
    const long pid = raw_syscall(SYS_clone, child.flags, 0, child.parent_number, child.child_number, child.tls);
    return failed(pid) ? (errno = static_cast<int>(-pid), -1) : static_cast<int>(pid);
  }
  const std::uint64_t mask = block_program_signals();
  hold_tables();
  const long stack =
      raw_syscall(SYS_mmap, 0, kTemporaryStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  long pid = stack;
  Child wanted = child;
  if (!failed(stack)) {
    pid = mortise_isolate_call_on_stack(&fork_on_private_stack, &wanted,
                                        reinterpret_cast<void*>(stack + static_cast<long>(kTemporaryStack)));
    raw_syscall(SYS_munmap, stack, kTemporaryStack);
  }
  if (pid != 0) let_go_of_tables();
  restore_signals(mask);
  return failed(pid) ? (errno = static_cast<int>(-pid), -1) : static_cast<int>(pid);
}

}  // namespace mortise::isolate
