// Giving memory back while the program sleeps: one small thread that exists only while there is something to give back.
//
//   free_slow ─► note_release: enough free pages, or many misses? ─► start the thread, unless it is there
//   the thread: every half delay, purge what has been free for the delay; when the program has made no miss for a
//   while, empty the caches too; when nothing is left, end.
//
// The thread is made by clone itself, not by pthread_create: that may allocate, and may run under the loader's locks.
// It has no libc thread state, so it runs nothing of libc that would need it: our own code and bare system calls. All
// signals are blocked in it. It does not exist in the child of a fork, which starts its own when it needs one; the child
// of a vfork starts none in its parent's memory, since it would end with the child and take a lock along. A program at
// rest has no thread more than it made itself, and may do what the kernel allows to a single thread only (unshare, setns).
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <cstdlib>

#include "abi/heap.hpp"
#include "mortise/os/clock.hpp"
#include "mortise/os/futex.hpp"
#include "mortise/os/pages.hpp"
#include "mortise/sync/atomics.hpp"

namespace mortise::abi {
namespace {

constexpr std::size_t kEnoughBytes = 1_MiB;      // less is not worth a thread
constexpr std::uint32_t kManyMisses = 4096;      // so many may have left much in the caches
constexpr std::uint32_t kRefusalsMost = 10;      // of a thread; from then on the wait stays the same
constexpr std::size_t kStackBytes = 128_KiB, kTlsMargin = 8_KiB;
#ifdef MORTISE_SANITIZED
constexpr bool kMayClone = false;  // a sanitizer's run-time wants to know every thread from its start
#else
constexpr bool kMayClone = true;
#endif
constexpr std::uint64_t kYieldEveryMs = 100;
constinit Atomic<std::uint64_t> yielded_ms{0};
constexpr unsigned kQuietRounds = 6;             // rounds without a miss after which the caches are emptied

constinit Atomic<std::uint32_t> running{0};      // 1 from the decision to start the thread to its decision to end
constinit Atomic<std::uint32_t> kernels_word{0}; // not 0 while the thread is on its stack; cleared by the kernel
constinit Atomic<std::uint32_t> misses{0};       // counts note_release: two looks tell whether the program allocates
constinit Atomic<std::uint32_t> misses_seen{0};  // by the last thread when it ended
constinit Atomic<std::int32_t> owner{0};         // the process that this memory is of
constinit Atomic<std::uint32_t> asks_again{0};   // the count of misses before which a thread that was refused is not asked for
constinit Atomic<std::uint32_t> refusals{0};     // one after the other
constinit Heap::Thread* own_record = nullptr;    // the thread's record of the stack of layers
constinit std::byte* own_stack = nullptr;        // kept from one thread to the next
constinit std::byte* own_thread_pointer = nullptr;

/// Zeroed bookkeeping memory is a record that has not attached: enough to trim with.
template <class H> typename H::Thread* make_own_record(H& h) noexcept {
  return reinterpret_cast<typename H::Thread*>(h.meta(sizeof(typename H::Thread)));
}

/// True when the thread has ended its work. Whoever frees takes the heap's lock and then looks at `running`; we clear
/// `running` and then take the lock: one of us sees the other.
bool may_end(std::uint32_t seen) noexcept {
  misses_seen.store(seen, Order::relaxed);
  running.store(0, Order::seq_cst);
  return purge_below(heap) == 0 || running.exchange(1, Order::seq_cst) != 0;
}

[[maybe_unused]] void run() noexcept {
  os::syscall(SYS_prctl, PR_SET_NAME, "mortise-idle", 0L, 0L, 0L);
  thread_record.area.index = os::kCpusMax;  // as of a thread that has ended: no cache is made for it, what it releases goes below
  std::uint32_t seen = misses.load(Order::relaxed);
  unsigned quiet = 0;
  for (bool trimmed = false;;) {
    const std::int64_t delay = purge_ms_below(heap);
    std::uint32_t never = 0;
    os::futex_wait(&never, 0, (delay > 0 ? delay / 2 + 1 : 50) * 1'000'000);
    const std::uint32_t now = misses.load(Order::relaxed);
    quiet = now == seen ? quiet + 1 : 0;
    seen = now;
    const std::size_t waiting = purge_below(heap);
    if (quiet == 0) trimmed = false;
    if (quiet >= kQuietRounds && !trimmed && delay >= 0) {
      trim_below(heap, *own_record);
      trimmed = true;
    } else if (quiet >= kQuietRounds && (delay < 0 || waiting == 0) && may_end(seen)) {
      os::syscall(SYS_exit, 0L);
    }
  }
}

constexpr std::int64_t kRefillNanoseconds = 2'000'000;

template <class H> void fill_up(H& h) noexcept {
  if constexpr (Reserves<H>) h.reserve(*own_record, settings.reserve);
}

/// The other work that the thread may be started for, and then has for ever.
[[maybe_unused]] void run_refill() noexcept {
  os::syscall(SYS_prctl, PR_SET_NAME, "mortise-refill", 0L, 0L, 0L);
  for (;;) {
    std::uint32_t never = 0;
    os::futex_wait(&never, 0, kRefillNanoseconds);
    fill_up(heap);
    purge_below(heap);
  }
}

// Starts `entry` on its own stack, with a thread pointer into its own block of zeros. Returns the kernel's answer.
long start_thread(void (*entry)() noexcept, std::byte* stack_end, std::byte* thread_pointer) noexcept {
  constexpr long kFlags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                          CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
  long result;
#if defined(__x86_64__)
  register long tls asm("r8") = reinterpret_cast<long>(thread_pointer);
  register void* word asm("r10") = &kernels_word;
  register void (*go)() noexcept asm("r12") = entry;
  asm volatile(
      "syscall\n test %%rax, %%rax\n jnz 1f\n"
      "xorl %%ebp, %%ebp\n call *%%r12\n ud2\n"
      "1:\n"
      : "=a"(result)
      : "0"(static_cast<long>(SYS_clone)), "D"(kFlags), "S"(stack_end), "d"(&kernels_word), "r"(word), "r"(tls), "r"(go)
      : "rcx", "r11", "memory");
#elif defined(__aarch64__)
  register long x8 asm("x8") = SYS_clone;
  register long x0 asm("x0") = kFlags;
  register std::byte* x1 asm("x1") = stack_end;
  register void* x2 asm("x2") = &kernels_word;
  register std::byte* x3 asm("x3") = thread_pointer;
  register void* x4 asm("x4") = &kernels_word;
  register void (*x20)() noexcept asm("x20") = entry;
  asm volatile("svc 0\n cbnz x0, 1f\n mov x29, #0\n blr x20\n brk #0\n 1:\n"
               : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x20) : "memory");
  result = x0;
#endif
  return result;
}

/// A stack and a block of zeros for thread-local memory, as far around the thread pointer as our own lies from it.
bool prepare_memory() noexcept {
  if (!own_record) own_record = make_own_record(heap);
  if (!own_stack) {
    const auto own = static_cast<std::size_t>(
        std::abs(reinterpret_cast<std::byte*>(&thread_record) - static_cast<std::byte*>(__builtin_thread_pointer())));
    const std::size_t reach = round_up(own + sizeof thread_record + kTlsMargin, kTlsMargin);
    if (!(own_stack = os::map(kStackBytes + 2 * reach))) return false;
    own_thread_pointer = own_stack + kStackBytes + reach;
    *reinterpret_cast<std::byte**>(own_thread_pointer) = own_thread_pointer;  // x86-64: the first word points to itself
  }
  return own_record != nullptr;
}

/// Whether a thread started here lives as long as this memory: in the child of a vfork it would end at the child's exec.
bool is_in_own_memory() noexcept {
  const std::int32_t process = owner.load(Order::relaxed);  // 0 before our constructor has run
  return !process || process == static_cast<std::int32_t>(os::syscall(SYS_getpid));
}

/// Of the misses before which nobody asks again, each refusal doubles how many.
bool was_just_refused() noexcept {
  const std::uint32_t wait = kManyMisses << refusals.load(Order::relaxed);
  return asks_again.load(Order::relaxed) - misses.load(Order::relaxed) - 1 < wait;
}
void refuse_for_a_while() noexcept {
  const std::uint32_t times = refusals.load(Order::relaxed);
  asks_again.store(misses.load(Order::relaxed) + (kManyMisses << times), Order::relaxed);
  if (times < kRefusalsMost) refusals.store(times + 1, Order::relaxed);
  running.store(0, Order::seq_cst);
}

[[maybe_unused]] MORTISE_COLD void start(void (*entry)() noexcept) noexcept {
  if (was_just_refused() || !is_in_own_memory() || running.exchange(1, Order::seq_cst)) return;
  // The last thread may be about to leave its stack, which is a matter of microseconds.
  for (unsigned tries = 0; kernels_word.load(Order::acquire) != 0; ++tries) {
    if (tries == 100) return running.store(0, Order::seq_cst);
    std::uint32_t never = 0;
    os::futex_wait(&never, 0, 100'000);
  }
  if (!prepare_memory()) return running.store(0, Order::seq_cst);
  std::uint64_t all = ~std::uint64_t{0}, before;
  os::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
  // Where the system refuses a thread, memory goes back by malloc_trim only until it is asked again.
  if (start_thread(entry, own_stack + kStackBytes, own_thread_pointer) < 0) refuse_for_a_while();
  else refusals.store(0, Order::relaxed);
  os::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, nullptr, sizeof before);
}

}  // namespace

namespace {
/// Above the soft limit caches are emptied too, as often as memory is purged.
void yield_caches() noexcept {
  if (!pressed_below(heap)) return;
  const std::uint64_t now = os::now_ms();
  std::uint64_t last = yielded_ms.load(Order::relaxed);
  if (now - last < kYieldEveryMs || !yielded_ms.compare_exchange_strong(last, now, Order::relaxed)) return;
  if (!prepare_thread()) return;
  trim_below(heap, thread());
  leave_if_ended();
}
}  // namespace

void note_release() noexcept {
  yield_caches();
  if constexpr (Purges<Heap> && kMayClone) {
    const std::uint32_t count = misses.load(Order::relaxed) + 1;
    misses.store(count, Order::relaxed);  // a lost count is harmless
    if (running.load(Order::seq_cst)) return;
    if (idle_bytes_below(heap) < kEnoughBytes && count - misses_seen.load(Order::relaxed) < kManyMisses) return;
    if (purge_ms_below(heap) > 0 && !os::may_be_isolated()) start(run);
  }
}

void refill_ahead() noexcept {
  if constexpr (Reserves<Heap>) start(run_refill);
}

void own_memory() noexcept { owner.store(static_cast<std::int32_t>(os::syscall(SYS_getpid)), Order::relaxed); }

void reset_idle_after_fork() noexcept {
  own_memory();
  running.store(0, Order::relaxed);
  kernels_word.store(0, Order::relaxed);
  own_record = nullptr;  // the parent's thread may have been using it
}

}  // namespace mortise::abi
