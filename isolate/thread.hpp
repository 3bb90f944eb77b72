// thread.hpp: what the runtime knows about each thread.
//
//   Thread table (static, shared)                     one address space each
//   +---------+  +---------+  +---------+             +-------------------------------+
//   | 0: main |  | 1       |  | 2       |  ...        | stack, TLS block and TCB: in  |
//   +---------+  +----|----+  +---------+             | shared memory, own addresses  |
//                     +-- tcb, stack, pid ----------> +-------------------------------+
//
// A record is taken by the creator, filled, and given to the new thread. It is free again when the thread was joined
// (or is detached) *and* its process was reaped: only then can nobody be on its stack.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <pthread.h>

#include "lock.hpp"
#include "raw.hpp"

namespace mortise::isolate {

inline constexpr int kThreadsMax = 1024;

enum ThreadFlag : std::uint32_t { kReleased = 1, kReaped = 2, kMade = 4 };  // Thread::gone; all set: the record is free

struct Stack {
  std::byte* low = nullptr;
  std::size_t bytes = 0;
  std::size_t guard_bytes = 0;
  bool from_program = false;  // pthread_attr_setstack: not ours to reuse
};

/// What --watch tells of each thread; plain counts, since only the thread itself adds to them.
struct Counts {
  std::uint64_t mmap = 0, munmap = 0, mprotect = 0, madvise = 0;
  std::uint64_t lock_waits = 0, lock_wait_ns = 0;
};

/// A call that may take a record lock (record_locks.hpp), and where on the stack it is: a handler may make another within it.
struct LockCall {
  std::atomic<std::uint64_t> key{0};  // of the file; 0: no call
  std::uintptr_t at = 0;
};
inline constexpr int kLockCalls = 4;

inline constexpr int kProcessorsMost = 8192;  // of any kernel; libc's cpu_set_t has room for 1024

struct Thread {
  std::atomic<bool> in_use{false};
  int index = 0;
  std::atomic<int> pid{0};  // the process that is this thread; 0 before it runs and after it was reaped, negative meanwhile
  void* tcb = nullptr;      // also its pthread_t
  void* (*start)(void*) = nullptr;
  void* argument = nullptr;
  void* result = nullptr;
  bool returns_int = false;  // made by C11 thrd_create
  bool held_robust = false;  // ended with robust mutexes: the kernel sees to them when the process ends
  bool exits_early = false;  // pthread_exit recorded `result`
  bool has_heirs = false;    // ended with children (orphans.hpp)
  std::atomic<bool> detached{false};
  std::atomic<std::uint32_t> ended{0};     // 1 when the thread's last line has run
  std::atomic<std::uint32_t> finished{0};  // futex of join: 1 then, or when it is main, which has a result and stays
  std::atomic<std::uint32_t> gone{0};      // ThreadFlag
  Stack stack;
  Stack creators;             // whose guard its address space has, too
  std::uint64_t mask = 0;     // signal mask to start with
  bool has_affinity = false, has_scheduling = false;  // from the attributes
  std::uint64_t affinity[kProcessorsMost / 64]{};
  int policy = 0;
  sched_param scheduling{};
  std::atomic<std::uint32_t> refused{0};  // what the kernel said to these two
  std::atomic<std::uint64_t> announced{0};  // signals it waits for in sigwait
  std::atomic<std::uint64_t> awaits{0};     // the same, until it is passed one
  std::atomic<bool> is_served{false};       // it has been
  std::atomic<std::uint64_t> passed{0};     // signals that were passed on to it, and that it has not taken yet
  LockCall lock_calls[kLockCalls];
  Counts counts;
  std::atomic<std::uint32_t> applied{0};  // rendezvous this address space has caught up with (see rendezvous.hpp)
};

/// The calling thread; null in the runtime's helper and in processes the program cloned by itself.
/// An exception to "no thread_local": it is how an address space knows which thread it is.
extern __thread Thread* self;

extern Thread threads[kThreadsMax];  // [0] is the main thread

/// The thread whose process is the program's for everyone outside: main, or in a forked child the one that forked.
extern Thread* leader;
inline bool is_leader() noexcept { return self == leader; }
/// And not a child about to exec, or one that the program cloned by itself: these have descriptors of their own.
inline bool is_thread() noexcept { return self && raw_getpid() == self->pid.load(); }
inline pthread_t handle_of(const Thread& t) noexcept { return reinterpret_cast<pthread_t>(t.tcb); }

/// Records [0, this) have been used.
int thread_records() noexcept;

/// The live or unjoined thread behind a pthread_t, or null.
Thread* find_thread(pthread_t handle) noexcept;
Thread* find_thread_by_pid(int pid) noexcept;

/// Takes a free record, or null when as many threads live as the limit allows (says so once).
Thread* take_thread() noexcept;

/// Notes that the thread was joined/detached or reaped; the second of the two frees the record.
void let_go(Thread& t, ThreadFlag flag) noexcept;

/// Copies of address spaces that were ever made, one for each thread.
extern std::atomic<std::uint32_t> address_spaces;

/// Threads that have not ended, main included.
extern std::atomic<std::uint32_t> live_threads;

/// In the child of a fork: forgets all threads but the caller, which becomes the main thread's successor.
void forget_other_threads() noexcept;

}  // namespace mortise::isolate
