// Giving memory back while the program sleeps: one small thread that exists only while there is something to give back.
//
//   free_slow ─► note_release: enough free pages, or many misses? ─► start the thread, unless it is there
//   the thread: every half delay, purge what has been free for the delay; when the program has made no miss for a
//   while, empty the caches too; when nothing is left that the system takes back, end.
//
// While the program goes on it is relieved every few seconds by one that the program's next miss starts, which has the user and group
// that the program has by then: once it is due it offers its place in each round, and ends when that was taken. It ends as well when its
// successor was refused: what a program has given up stays with nobody.
//
// What a program calls to shut itself in finds none there (sandbox.cpp), and none is started from then on: the filter may end the program
// for `clone`, and a thread from before is not under it. Where that fails, and where the program only was to be alone for a moment, the one
// that went is started again. Where there is none to be had, a release that misses purges what is due.
//
// A filter of system calls may end the thread at one. So it makes each of its calls for nothing first, while it holds no lock and no pages;
// who finds it gone knows which it was, and the next one leaves that call out. Where none can do without, none is started any more.
//
// The thread is made by clone itself, not by pthread_create: that may allocate, and may run under the loader's locks.
// It has no libc thread state, so it runs nothing of libc that would need it: our own code and bare system calls. All
// signals are blocked in it. It does not exist in the child of a fork, which starts its own when it needs one; the child
// of a vfork starts none in its parent's memory, since it would end with the child and take a lock along. A program at
// rest has no thread more than it made itself, and may do what the kernel allows to a single thread only (unshare, setns).
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <cstdlib>

#include "abi/heap.hpp"
#include "abi/signals.hpp"
#include "mortise/os/clock.hpp"
#include "mortise/os/futex.hpp"
#include "mortise/os/pages.hpp"
#include "mortise/os/restraint.hpp"
#include "mortise/os/rseq.hpp"
#include "mortise/sync/atomics.hpp"
#include "mortise/sync/one_helper.hpp"

namespace mortise::abi {
namespace {

constexpr std::size_t kEnoughBytes = 1_MiB;      // less is not worth a thread
constexpr std::uint32_t kManyMisses = 4096;      // so many may have left much in the caches
constexpr std::uint64_t kRefusedMs = 1000;       // so long nobody asks for a thread that was refused
constexpr std::uint64_t kReliefMs = 5000;        // a thread offers its place that often
constexpr std::uint64_t kYieldEveryMs = 100;     // above the soft limit caches are emptied that often at most
constexpr std::int64_t kTryNanoseconds = 50'000; // from one look to the next whether a thread has gone that is to go
constexpr std::uint64_t kTriesMs = 1000;         // for so long
constexpr std::size_t kStackBytes = 128_KiB, kTlsMargin = 8_KiB;
#ifdef MORTISE_SANITIZED
constexpr bool kMayClone = false;  // a sanitizer's run-time wants to know every thread from its start
#else
constexpr bool kMayClone = true;
#endif
constexpr unsigned kQuietRounds = 6;             // rounds without a miss after which the caches are emptied

constinit OneHelper helper{};                    // who is at work, who is being started, who is leaving
constinit Atomic<std::uint32_t> misses{0};       // counts note_release: two looks tell whether the program allocates
constinit Atomic<std::uint32_t> misses_seen{0};  // by the last thread when it ended
constinit Atomic<std::int32_t> owner{0};         // the process that this memory is of
constinit Atomic<std::uint64_t> asks_again_ms{0}; // when a thread that was refused is asked for again
constinit Atomic<std::uint64_t> yielded_ms{0};   // when a release last emptied the caches
constinit Atomic<std::uint64_t> purged_ms{0};    // when a release last purged what was due
constinit Atomic<std::uint32_t> last_call{0}, left_out{0}; // of the thread; by those after it
constinit Atomic<bool> refills{false};           // what the thread of this process is for
constinit Heap::Thread* own_record = nullptr;    // of the stack of layers; whoever is at work, or is starting one, uses it

/// Where a thread runs, kept from one to the next. The last one may be about to leave its own: so there are two.
struct Place {
  std::byte* stack = nullptr;
  std::byte* thread_pointer = nullptr;
};
constinit Place places[OneHelper::kPlaces];

/// Zeroed bookkeeping memory is a record that has not attached: enough to trim with.
template <class H> typename H::Thread* make_own_record(H& h) noexcept {
  return reinterpret_cast<typename H::Thread*>(h.meta(sizeof(typename H::Thread)));
}

enum Call : std::uint32_t { kNames = 1, kSleeps = 2, kGivesBack = 4, kRestarts = 8 };

/// For nothing, and before the thread does the work that needs the call. False when one was ended for it.
[[maybe_unused]] bool try_call(Call call, const char* name = nullptr) noexcept {
  if (left_out.load(Order::relaxed) & call) return false;
  last_call.store(call, Order::relaxed);
  if (call == kNames) os::syscall(SYS_prctl, PR_SET_NAME, name, 0L, 0L, 0L);
  if (call == kGivesBack) os::purge(nullptr, 0);
  if (call == kRestarts && Hits<Heap>) os::rseq_restart_all();  // else no cache is emptied by membarrier
  return true;
}

void sleep(std::int64_t nanoseconds) noexcept {
  std::uint32_t never = 0;
  os::futex_wait(&never, 0, nanoseconds);
}
void sleep_ms(std::int64_t ms) noexcept { sleep(ms * 1'000'000); }
/// Or until it is to go.
void doze(std::int64_t nanoseconds) noexcept { os::futex_wait(&helper.away_word(), 0, nanoseconds); }
void wait_half(std::int64_t delay_ms) noexcept { doze((delay_ms > 0 ? delay_ms / 2 + 1 : 50) * 1'000'000); }
void wait_for_start() noexcept { sleep_ms(1); }

/// True when the thread has ended its work, but for `stuck` bytes that the system does not take back.
bool may_end(std::uint32_t seen, std::size_t stuck) noexcept {
  misses_seen.store(seen, Order::relaxed);
  const auto is_done = [&] {
    const bool all = purge_below(heap) == stuck && misses.load(Order::relaxed) == seen;
    return all || purge_ms_below(heap) < 0;
  };
  return helper.ends(is_done, wait_for_start);
}

/// True when another thread has taken over. Until then the record is nobody's.
bool is_relieved(std::int64_t delay_ms) noexcept {
  return helper.is_relieved([delay_ms] { wait_half(delay_ms); }, wait_for_start);
}

/// A filter may answer `exit` by an error. The status is the program's where its own threads have gone one by one, ended by a filter or by
/// that very call: the kernel takes the last one's, and it must not look as if all were well.
[[noreturn]] void end_thread() noexcept {
  for (;; sleep_ms(1000)) os::syscall(SYS_exit, 128L + SIGSYS);
}

[[noreturn]] void leave_and_end() noexcept {
  helper.refuse();
  end_thread();
}

/// One was asked for and refused just now.
bool is_refused() noexcept { return asks_again_ms.load(Order::relaxed) > os::now_ms(); }

/// Offers the place for a round; ends when it was taken, or when nobody may take it.
void be_relieved(std::int64_t delay_ms) noexcept {
  if (is_relieved(delay_ms)) end_thread();
  if (!is_refused()) return;
  if (try_call(kRestarts)) trim_below(heap, *own_record);
  leave_and_end();
}

/// Whoever started it left the faults' signals open for handlers of its own, which could not run here.
[[maybe_unused]] void arrive(const char* name) noexcept {
  block_signals(~std::uint64_t{0});
  helper.arrive();
  try_call(kNames, name);
}

[[maybe_unused]] void run() noexcept {
  arrive("mortise-idle");
  if (try_call(kGivesBack)) purge_below(heap);  // those before it may all have been sent away before they had slept
  std::uint32_t seen = misses.load(Order::relaxed);
  const std::uint64_t since_ms = os::now_ms();
  std::uint64_t emptied_ms = since_ms;
  std::size_t left = 0;
  unsigned quiet = 0, same = 0;  // rounds without a miss; rounds in which what waits has stayed the same
  for (bool trimmed = false;;) {
    const std::int64_t delay = purge_ms_below(heap);
    try_call(kSleeps);
    if (os::now_ms() - since_ms < kReliefMs) wait_half(delay);
    else be_relieved(delay);
    if (helper.is_sent_away(wait_for_start)) end_thread();
    try_call(kGivesBack);
    const std::uint32_t now = misses.load(Order::relaxed);
    quiet = now == seen ? quiet + 1 : 0;
    seen = now;
    const std::size_t waiting = purge_below(heap);
    same = waiting == left ? same + 1 : 0;
    left = waiting;
    if (quiet == 0) trimmed = false;
    const bool rests = quiet >= kQuietRounds && !trimmed && delay >= 0;
    const bool yields = quiet == 0 && pressed_below(heap) && os::now_ms() - emptied_ms >= kYieldEveryMs;
    if ((rests || yields) && try_call(kRestarts)) {
      trim_below(heap, *own_record);
      emptied_ms = os::now_ms();
      trimmed = rests;
      same = 0;
    } else if (quiet >= kQuietRounds && (delay < 0 || waiting == 0 || same >= kQuietRounds)) {
      if (may_end(seen, waiting)) end_thread();
    }
  }
}

constexpr std::int64_t kRefillNanoseconds = 2'000'000;

template <class H> void fill_up(H& h) noexcept {
  if constexpr (Reserves<H>) h.reserve(*own_record, settings.reserve);
}

/// The other work that the thread may be started for, and then has for ever.
[[maybe_unused]] void run_refill() noexcept {
  arrive("mortise-refill");
  for (;;) {
    doze(kRefillNanoseconds);
    if (helper.is_sent_away(wait_for_start)) end_thread();
    fill_up(heap);
    purge_below(heap);
  }
}

// Starts `entry` on its own stack, with a thread pointer into its own block of zeros. Returns the kernel's answer.
long start_thread(void (*entry)() noexcept, const Place& place, Atomic<std::uint32_t>& kernels_word) noexcept {
  constexpr long kFlags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                          CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
  std::byte* const stack_end = place.stack + kStackBytes;
  long result;
#if defined(__x86_64__)
  register long tls asm("r8") = reinterpret_cast<long>(place.thread_pointer);
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
  register std::byte* x3 asm("x3") = place.thread_pointer;
  register void* x4 asm("x4") = &kernels_word;
  register void (*x20)() noexcept asm("x20") = entry;
  asm volatile("svc 0\n cbnz x0, 1f\n mov x29, #0\n blr x20\n brk #0\n 1:\n"
               : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x20) : "memory");
  result = x0;
#endif
  return result;
}

/// A stack and a block of zeros for thread-local memory, as far around the thread pointer as what is read there lies from our own. The
/// kernel does not know its areas of restartable sequences: nothing restarts a section of this thread. So wherever layers look
/// for the core they find one that no cache serves, as of a thread that has ended: what it releases goes below.
bool prepare_memory(Place& place) noexcept {
  if (!own_record) own_record = make_own_record(heap);
  if (!place.stack) {
    const os::RseqArea own = os::own_rseq_area(&thread_record.area), cores = core_area();
    const auto far = [](std::ptrdiff_t offset) { return static_cast<std::size_t>(offset < 0 ? -offset : offset); };
    const std::size_t record = far(own.offset) + sizeof thread_record, area = far(cores.offset);
    const std::size_t reach = round_up((record > area ? record : area) + kTlsMargin, kTlsMargin);
    std::byte* const stack = os::map(kStackBytes + 2 * reach);
    if (!stack) return false;
    std::byte* const pointer = place.thread_pointer = stack + kStackBytes + reach;
    *reinterpret_cast<std::byte**>(pointer) = pointer;  // x86-64: the first word points to itself
    for (const std::ptrdiff_t at : {own.index_at, cores.index_at, os::indexed_by_cpu(cores).index_at})
      *reinterpret_cast<std::uint32_t*>(pointer + at) = os::kCpusMax;
    fence(Order::release);
    place.stack = stack;  // last: the child of a fork meanwhile finds all of it, or none
  }
  return own_record != nullptr;
}

/// Whether a thread started here lives as long as this memory: in the child of a vfork it would end at the child's exec.
bool is_in_own_memory() noexcept {
  const std::int32_t process = owner.load(Order::relaxed);  // 0 before our constructor has run
  return !process || process == static_cast<std::int32_t>(os::syscall(SYS_getpid));
}

/// A handler that forks, or that does not return, would leave a start half done.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept : before_(block_signals()) {}
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { set_signals(before_); }

 private:
  const std::uint64_t before_;
};

/// False when there is none, nor will be for a while.
[[maybe_unused]] MORTISE_COLD bool start(void (*entry)() noexcept) noexcept {
  if (!kMayClone || os::may_be_isolated() || helper.gives_way()) return false;
  if (const std::uint64_t then = asks_again_ms.load(Order::relaxed); then && os::now_ms() < then) return false;
  if (!is_in_own_memory()) return false;
  const SignalsBlocked blocked;
  if (!helper.claim()) return true;
  if (const unsigned i = helper.free_place(); i != OneHelper::kNoPlace) {
    if (prepare_memory(places[i]) && start_thread(entry, places[i], helper.word(i)) >= 0) return true;
    asks_again_ms.store(os::now_ms() + kRefusedMs, Order::relaxed);
  }
  helper.refuse();
  return false;
}

/// The one at work may have been ended by a filter. Nothing is started here.
[[maybe_unused]] MORTISE_COLD void learn_from_end() noexcept {
  const SignalsBlocked blocked;
  if (!helper.claim_from_ended()) return;
  const std::uint32_t call = last_call.load(Order::relaxed);
  left_out.store(left_out.load(Order::relaxed) | call, Order::relaxed);
  // What gives pages back inside free needs no sleep, but the call that does so.
  if (call != kNames && call != kRestarts && purge_ms_below(heap) > 0) set_purge_ms_below(heap, call == kSleeps ? 0 : -1);
  helper.refuse();
}

/// True for one caller in each `every_ms` at most.
bool is_due(Atomic<std::uint64_t>& last_ms, std::uint64_t every_ms) noexcept {
  const std::uint64_t now = os::now_ms();
  std::uint64_t last = last_ms.load(Order::relaxed);
  return now - last >= every_ms && last_ms.compare_exchange_strong(last, now, Order::relaxed);
}

/// The thread's work where there is none. What the program takes and releases without a miss waits.
[[maybe_unused]] MORTISE_COLD void purge_instead(std::uint64_t delay_ms) noexcept {
  if (!os::may_be_isolated() && is_due(purged_ms, delay_ms / 2 + 1)) purge_below(heap);
}

/// Above the soft limit caches are emptied too. Those of cores, and quarantines of other threads, take a call that a filter may end the
/// program for: they are the thread's affair.
void yield_caches() noexcept {
  if (!pressed_below(heap) || !is_due(yielded_ms, kYieldEveryMs) || !prepare_thread()) return;
  if (const os::Restraint restraint; restraint) trim_below(heap, thread());
  leave_if_ended();
}

}  // namespace

void note_release() noexcept {
  yield_caches();
  if constexpr (Purges<Heap> && kMayClone) {
    const std::uint32_t count = misses.load(Order::relaxed) + 1;
    misses.store(count, Order::relaxed);  // a lost count is harmless
    if (helper.is_at_work()) {
      if (helper.is_there()) return;
      learn_from_end();
    }
    if (idle_bytes_below(heap) < kEnoughBytes && count - misses_seen.load(Order::relaxed) < kManyMisses) return;
    if (const std::int64_t delay = purge_ms_below(heap); delay > 0 && !start(run)) purge_instead(static_cast<std::uint64_t>(delay));
  }
}

KeptAway::KeptAway() noexcept : counts_(kMayClone && !helper.is_kept_away_for_good() && is_in_own_memory()) {
  if (!counts_) return;
  helper.keep_away();
  const std::uint32_t threads[] = {helper.word(0).load(Order::relaxed), helper.word(1).load(Order::relaxed)};
  const auto ask_for = [](std::uint32_t thread) { return os::syscall(SYS_tgkill, os::syscall(SYS_getpid), static_cast<long>(thread), 0L); };
  // The kernel clears a thread's word before it forgets the thread. One that it does not know is the parent's: a child that libc has not
  // made may have its parent's number, in a namespace of its own, and has a copy of the word, which nobody clears.
  for (unsigned i = 0; i < OneHelper::kPlaces; ++i)
    if (threads[i] && ask_for(threads[i]) == -ESRCH && helper.word(i).load(Order::acquire) == threads[i]) return;
  std::uint64_t until_ms = 0;
  const auto wait_while = [&](auto&& is_there) {
    while (is_there()) {
      if (!until_ms) until_ms = os::now_ms() + kTriesMs;
      if (os::now_ms() >= until_ms) return;
      os::futex_wake(&helper.away_word(), OneHelper::kPlaces);
      sleep(kTryNanoseconds);
    }
  };
  wait_while([] { return !helper.is_gone(); });
  for (const std::uint32_t thread : threads)
    if (thread) wait_while([=] { return ask_for(thread) == 0; });
}
bool KeptAway::for_good() noexcept {
  if (counts_) helper.keep_away_for_good();
  return counts_;
}
KeptAway::~KeptAway() {
  if (counts_ && helper.come_again()) start(refills.load(Order::relaxed) ? run_refill : run);
}

bool idle_thread_runs() noexcept { return helper.is_there(); }

bool refill_ahead() noexcept {
  if constexpr (!Reserves<Heap>) return false;
  refills.store(true, Order::relaxed);
  return start(run_refill);
}

void own_memory() noexcept { owner.store(static_cast<std::int32_t>(os::syscall(SYS_getpid)), Order::relaxed); }

void reset_idle_after_fork() noexcept {
  own_memory();
  helper.reset_after_fork();
  os::Restraint::reset_after_fork();
  asks_again_ms.store(0, Order::relaxed);  // other limits may be on a child
  refills.store(false, Order::relaxed);
  own_record = nullptr;  // the parent's thread may have been using it
}

}  // namespace mortise::abi
