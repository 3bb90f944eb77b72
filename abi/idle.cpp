// Giving memory back while the program sleeps: one small thread, started when there is first something to give back.
//
//   free_slow ─► note_release: enough free pages? ─► start the thread, or wake it
//   the thread: every half delay, purge what has been free for the delay; when the program has made no miss for a while, empty
//   the caches too; when nothing is left, sleep until woken.
//
// The thread is made by clone itself, not by pthread_create: that may allocate, and may run under the loader's locks. It has no
// libc thread state, so it runs nothing of libc: our own code and bare system calls. All signals are blocked in it. It does not
// exist in the child of a fork, which starts its own when it needs one.
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "abi/heap.hpp"
#include "mortise/os/futex.hpp"
#include "mortise/os/pages.hpp"
#include "mortise/sync/atomics.hpp"

namespace mortise::abi {
namespace {

constexpr std::size_t kEnoughBytes = 1_MiB;   // less is not worth a thread
constexpr std::size_t kStackBytes = 128_KiB, kTlsBytes = 8_KiB;
constexpr unsigned kQuietRounds = 6;          // rounds without a miss after which the caches are emptied

constinit Atomic<std::uint32_t> asleep{0};    // 1 while the thread waits to be woken
constinit Atomic<std::uint32_t> started{0};
constinit Atomic<std::uint32_t> misses{0};    // counts note_release; a thread that looks twice sees whether the program allocates
constinit Heap::Thread* own_record = nullptr; // the thread's record of the stack

/// Zeroed bookkeeping memory is a record that has not attached: enough to trim with.
template <class H> typename H::Thread* make_own_record(H& h) noexcept {
  return reinterpret_cast<typename H::Thread*>(h.meta(sizeof(typename H::Thread)));
}


[[maybe_unused]] void run() noexcept {
  os::syscall(SYS_prctl, PR_SET_NAME, "mortise-idle", 0L, 0L, 0L);
  std::uint32_t seen = misses.load(Order::relaxed);
  unsigned quiet = 0;
  bool trimmed = false;
  for (;;) {
    const std::int64_t delay = purge_ms_below(heap);
    std::uint32_t never = 0;
    os::futex_wait(&never, 0, (delay > 0 ? delay / 2 + 1 : 50) * 1'000'000);
    const std::uint32_t now = misses.load(Order::relaxed);
    quiet = now == seen ? quiet + 1 : 0;
    if (now != seen) trimmed = false;
    seen = now;
    if (delay < 0) quiet = 0;
    else if (quiet == kQuietRounds && !trimmed) {
      trim_below(heap, *own_record);
      trimmed = true;
    } else if (purge_below(heap) == 0 && trimmed) {
      asleep.store(1, Order::seq_cst);  // pairs with the load in note_release: one of us sees the other
      if (misses.load(Order::seq_cst) == seen) os::futex_wait(&asleep, 1);
      asleep.store(0, Order::relaxed);
      quiet = 0;
    }
  }
}

// Starts `run` on its own stack, with a thread pointer into its own block of zeros. Returns the kernel's answer.
long start_thread(std::byte* stack_end, std::byte* thread_pointer) noexcept {
  constexpr long kFlags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS;
  void (*entry)() noexcept = run;
  long result;
#if defined(__x86_64__)
  register long tls asm("r8") = reinterpret_cast<long>(thread_pointer);
  register long none asm("r10") = 0;
  register void (*go)() noexcept asm("r12") = entry;
  asm volatile(
      "syscall\n test %%rax, %%rax\n jnz 1f\n"
      "xorl %%ebp, %%ebp\n call *%%r12\n ud2\n"
      "1:\n"
      : "=a"(result) : "0"(static_cast<long>(SYS_clone)), "D"(kFlags), "S"(stack_end), "d"(0L), "r"(none), "r"(tls), "r"(go)
      : "rcx", "r11", "memory");
#elif defined(__aarch64__)
  register long x8 asm("x8") = SYS_clone;
  register long x0 asm("x0") = kFlags;
  register std::byte* x1 asm("x1") = stack_end;
  register long x2 asm("x2") = 0;
  register std::byte* x3 asm("x3") = thread_pointer;
  register long x4 asm("x4") = 0;
  register void (*x20)() noexcept asm("x20") = entry;
  asm volatile("svc 0\n cbnz x0, 1f\n mov x29, #0\n blr x20\n brk #0\n 1:\n"
               : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x20) : "memory");
  result = x0;
#endif
  return result;
}

MORTISE_COLD void start_or_wake() noexcept {
  if (started.exchange(1, Order::acq_rel)) {
    asleep.store(0, Order::relaxed);
    os::futex_wake(&asleep, 1);
    return;
  }
  if (!own_record) own_record = make_own_record(heap);
  std::byte* const memory = own_record ? os::map(kStackBytes + kTlsBytes) : nullptr;
  if (!memory) return;
  std::byte* const thread_pointer = memory + kStackBytes + kTlsBytes / 2;
  memcpy(thread_pointer, &thread_pointer, sizeof thread_pointer);  // the x86-64 ABI: the first word points to itself
  std::uint64_t all = ~std::uint64_t{0}, before;
  os::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
  const long id = start_thread(memory + kStackBytes, thread_pointer);
  os::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, nullptr, sizeof before);
  if (id < 0) os::unmap(memory, kStackBytes + kTlsBytes);  // no thread to be had; purging then waits for malloc_trim
}

}  // namespace

void note_release() noexcept {
  if constexpr (Purges<Heap>) {
    misses.store(misses.load(Order::relaxed) + 1, Order::relaxed);  // a lost count is harmless
    if (started.load(Order::relaxed)) {
      if (asleep.load(Order::seq_cst)) [[unlikely]] start_or_wake();
    } else if (idle_bytes_below(heap) >= kEnoughBytes && purge_ms_below(heap) > 0 && !os::may_be_isolated()) {
      start_or_wake();
    }
  }
}

void reset_idle_after_fork() noexcept {
  started.store(0, Order::relaxed);
  asleep.store(0, Order::relaxed);
}

}  // namespace mortise::abi
