// arm.cpp: what happens at the first pthread_create, in order.
//
//   1. recognise glibc          otherwise: one line, ordinary threads
//   2. refuse what cannot work  sanitizers and the like: one line, exit status 78
//   3. open the shared region   otherwise: one line, ordinary threads
//   4. let glibc itself switch to its multi-threaded mode (stream locks, atomic counts)
//   5. on a stack of its own, re-map all writable memory as shared
//   6. replace libc's entries, take SIGSEGV and the two signals that glibc keeps for itself
//
// The program is single-threaded until the end of this, so nothing here needs a lock.
#include "arm.hpp"

#include <cstring>
#include <dirent.h>
#include <dlfcn.h>
#include <linux/membarrier.h>
#include <sys/mman.h>

#include "actions.hpp"
#include "callers.hpp"
#include "cancel.hpp"
#include "command_line.hpp"
#include "entries.hpp"
#include "fault.hpp"
#include "glibc.hpp"
#include "lazy_files.hpp"
#include "loads.hpp"
#include "masks.hpp"
#include "message.hpp"
#include "on_stack.hpp"
#include "raw.hpp"
#include "record_locks.hpp"
#include "refuse.hpp"
#include "rendezvous.hpp"
#include "region.hpp"
#include "share.hpp"
#include "signals.hpp"
#include "stack.hpp"
#include "thread.hpp"
#include "tls.hpp"
#include "trap.hpp"
#include "wiped.hpp"

namespace mortise::isolate {
namespace {

enum class State { untouched, armed, declined };
constinit State state = State::untouched;

constexpr std::size_t kTemporaryStack = 256u << 10;

void* do_nothing(void* argument) { return argument; }

/// One ordinary thread, made and joined: glibc turns on what it turns on with the first thread.
bool make_glibc_multithreaded() noexcept {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  pthread_t thread;
  return create && create(&thread, nullptr, &do_nothing, nullptr) == 0 && pthread_join(thread, nullptr) == 0;
}

int count_kernel_threads() noexcept {
  DIR* tasks = opendir("/proc/self/task");
  if (!tasks) return 1;
  int count = 0;
  while (const dirent* entry = readdir(tasks)) count += entry->d_name[0] != '.';
  closedir(tasks);
  return count;
}

long share_on_other_stack(void*) { return as_long(share_everything()); }

const char* share_memory() noexcept {
  const long stack =
      raw_syscall(SYS_mmap, 0, kTemporaryStack, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (failed(stack)) return "no memory for a temporary stack";
  const std::uint64_t mask = block_signals();
  rseq_off();
  const long wrong = mortise_isolate_call_on_stack(&share_on_other_stack, nullptr,
                                                   reinterpret_cast<void*>(stack + static_cast<long>(kTemporaryStack)));
  rseq_on();
  restore_signals(mask);
  raw_syscall(SYS_munmap, stack, kTemporaryStack);
  return reinterpret_cast<const char*>(wrong);
}

void make_main_a_record() noexcept {
  Thread& main = *leader;
  main.in_use.store(true);
  main.pid.store(raw_getpid());
  main.tcb = reinterpret_cast<void*>(pthread_self());
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
    void* low = nullptr;
    pthread_attr_getstack(&attributes, &low, &main.stack.bytes);
    main.stack.low = static_cast<std::byte*>(low);
    main.stack.from_program = true;
    pthread_attr_destroy(&attributes);
  }
  self = &main;
  live_threads.store(1);
}

State decline(const char* why) noexcept {
  say("glibc %s: %s; running with ordinary threads", glibc.version, why);
  return State::declined;
}

State try_to_arm() noexcept {
  if (const char* wish = setting("MORTISE_THREADS"); wish && std::strcmp(wish, "ordinary") == 0) return State::declined;
  const char* reason = nullptr;
  if (!recognise_glibc(reason)) return decline(reason);
  if (!entries_known(reason)) {
    say("glibc %s: the entry of %s cannot be replaced; running with ordinary threads", glibc.version, reason);
    return State::declined;
  }
  if (count_kernel_threads() > 1)
    return decline("the program made threads by its own means before its first pthread_create");
  refuse_what_cannot_work();
  if (const char* wrong = open_region()) return decline(wrong);
  if (!make_glibc_multithreaded()) return decline("no ordinary thread could be made");
  make_main_a_record();
  look_at_own_stack();
  find_wiped();
  find_allocator();
  if (const char* wrong = share_memory()) {
    refuse("cannot share the program's memory: %s; run it with ordinary threads", wrong);
    return State::declined;
  }
  keep_command_line();
  if (!replace_entries(reason)) {
    refuse("glibc %s: the entry of %s cannot be replaced; run it with ordinary threads", glibc.version, reason);
    return State::declined;
  }
  note_loaded();
  find_locked_files();
  // What the program has registered for, or will, each thread has from its creator (system_call.cpp).
  raw_syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
  take_over_actions();
  install_fault_handler();
  let_faults_through();
  install_rendezvous();
  promote_written_blocks();
  install_cancellation();
  install_futex_trap();
  explain("armed: glibc %s, %d ranges of memory shared", glibc.version, static_cast<int>(shared_range_count));
  return State::armed;
}

}  // namespace

bool armed() noexcept { return state == State::armed; }

bool arm() noexcept {
  if (state == State::untouched) state = try_to_arm();
  return state == State::armed;
}

}  // namespace mortise::isolate
