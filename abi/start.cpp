// The first malloc, threads coming and going, fork, and what is printed when a program asks which allocator it runs on.
//
// The first call finds an all-zero heap whose gates are closed, takes the slow path, and starts it here: before libc is
// ready, from the loader, or from another library's constructor. Our own constructor, which the loader runs before all
// others (the link option initfirst), reads the settings. Fork handlers are registered at whichever comes first: those
// of other libraries may allocate, and must find our locks open, so ours have to be the innermost.
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <new>

#include "abi/affinity.hpp"
#include "abi/fork_gate.hpp"
#include "abi/front.hpp"
#include "abi/heap.hpp"
#include "abi/hits.hpp"
#include "abi/next.hpp"
#include "abi/search_order.hpp"
#include "abi/signals.hpp"
#include "mortise/os/console.hpp"
#include "mortise/os/control_group.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/sync/fork_attempt.hpp"
#include "mortise/sync/futex_lock.hpp"

extern "C" [[gnu::weak]] void __asan_init() noexcept;

#ifdef __GLIBC__  // its pthread_atfork is a part of every program that calls it; what that calls may be called at any time
extern "C" int __register_atfork(void (*)(), void (*)(), void (*)(), void*) noexcept;
extern "C" void* __dso_handle [[gnu::visibility("hidden")]];
#endif

namespace mortise::abi {
namespace {

constinit FutexLock start_lock{};
constinit Atomic<int> state{0};  // 0 closed, 1 started, -1 cannot work here
constinit os::Facts facts{};
/// Records of threads that have ended, linked through their first word.
[[maybe_unused]] constinit Heap::Thread* idle_records = nullptr;

// A thread for whose record there is no memory still frees what it has, and may get what comes back: it borrows a record that all such
// threads share, under a lock, for one miss, as a thread does that has ended.
constinit FutexLock spare_lock{};
[[maybe_unused]] constinit bool had_ended_before_spare = false;
template <class T> alignas(T) constinit inline std::byte spare_record[sizeof(T)] = {};

template <class T> bool borrow_record(ThreadRecord<T>& record) noexcept {
  if constexpr (kIsReadyAsZero<T> || LiesInRecord<T>) {
    return false;
  } else {
    spare_lock.lock();
    had_ended_before_spare = record.ended;
    record.ended = true;  // so that it goes back after this call
    record.state = ::new (static_cast<void*>(spare_record<T>)) T{};
    attach_below(heap, *record.state);
    return true;
  }
}
template <class T> bool gave_back(ThreadRecord<T>& record, T* t) noexcept {
  if (static_cast<void*>(t) != spare_record<T>) return false;
  record.ended = had_ended_before_spare;
  if (!record.ended) record.area.index = 0;  // else the caches take it for one that has ended, and serve it no more
  spare_lock.unlock();
  return true;
}

// Records of threads, for stacks that have thread state; for those that have none there is nothing to do.
template <class T> void retire_record(ThreadRecord<T>& record) noexcept {
  if constexpr (!kIsReadyAsZero<T>) {
    const bool was_for_one_call = record.ended;
    if constexpr (LiesInRecord<T>) {
      record.state = {};
      record.is_made = false;
      record.ended = true;
    } else {
      T* t = record.state;
      record.state = record.kNone;
      if (!gave_back(record, t)) {
        record.ended = true;
        Held held(start_lock);
        memcpy(static_cast<void*>(t), &idle_records, sizeof idle_records);
        idle_records = t;
      }
    }
    if (was_for_one_call) set_signals(record.signals);
  }
}

template <class T> bool has_ended(const ThreadRecord<T>& record) noexcept {
  if constexpr (!kIsReadyAsZero<T>) return record.ended;
  return false;
}

void watch_thread() noexcept;

template <class T> MORTISE_COLD bool make_record(ThreadRecord<T>& record) noexcept {
  if constexpr (LiesInRecord<T>) {
    record.is_made = true;
    attach_below(heap, record.state);
    if (!record.ended) watch_thread();
  } else if constexpr (!kIsReadyAsZero<T>) {
    T* t;
    {
      Held held(start_lock);
      t = idle_records;
      if (t) memcpy(&idle_records, static_cast<void*>(t), sizeof idle_records);
    }
    if (!t) t = reinterpret_cast<T*>(heap.meta(sizeof(T) < sizeof(void*) ? sizeof(void*) : sizeof(T)));  // an idle one holds a link
    if (!t) return false;
    t = ::new (static_cast<void*>(t)) T{};
    if constexpr (HitsCounted<Heap>) t->countdown = &record.countdown;  // else nobody counts it down
    record.state = t;
    attach_below(heap, *t);
    if (!record.ended) watch_thread();
  }
  return true;
}

/// Of a thread that has ended, and where it is borrowed, for this call: until `leave_if_ended` no signal comes. No handler finds a record
/// half made or half retired, nor one that its thread has for one call only: it would give that back.
template <class T> MORTISE_COLD bool get_record(ThreadRecord<T>& record) noexcept {
  if constexpr (kIsReadyAsZero<T>) {
    return true;
  } else {
    const std::uint64_t before = block_signals();
    const bool has = record.ready() || make_record(record) || borrow_record(record);  // a handler may have made it just now
    if (has && record.ended) record.signals = before;
    else set_signals(before);
    return has;
  }
}

// The end of a thread: a key whose destructor detaches it. Destructors of other keys may still allocate afterwards, and
// libc frees what it kept for the thread last of all, when nobody would tell us of the end any more. So from then on a
// thread that needs a record has it for one miss only.
constinit pthread_key_t exit_key = 0;
constinit bool has_exit_key = false;

void detach_thread() noexcept {
  Heap::Thread* t = thread_if_ready();
  if (!t) return;
  detach_below(heap, *t);
  retire_record(thread_record);
}

/// What its caches held may be much, and nobody else may ever free again.
void end_thread(void*) noexcept {
  const std::uint64_t before = block_signals();
  detach_thread();
  set_signals(before);
  note_release();
}

void watch_thread() noexcept {
  if (has_exit_key) pthread_setspecific(exit_key, &heap);
}

constinit ForkGate fork_gate{};

void lock_for_fork() noexcept {
  if (lock_above) lock_above();
  hold(spare_lock);
  lock_below(heap);
}
void unlock_after_fork() noexcept {
  unlock_below(heap);
  let_go(spare_lock);
  if (unlock_above) unlock_above();
}

void before_fork() noexcept { fork_gate.lock(lock_for_fork, unlock_after_fork); }
void after_fork_in_parent() noexcept {
  unlock_after_fork();
  fork_gate.unlock();
}
void after_fork_in_child() noexcept {
  reset_below(heap);
  spare_lock.reset();
  if (reset_above) reset_above();
  start_lock.reset();
  reset_idle_after_fork();
  fork_gate.reset();
}

MORTISE_COLD bool start() noexcept {
  {
    Held held(start_lock);
    if (const int s = state.load(Order::relaxed)) return s > 0;
    facts = os::read_facts(&thread_record.area);
    facts.watch_thread = watch_thread;
    const bool ok = start_below(heap, facts);
    state.store(ok ? 1 : -1, Order::release);
    if (!ok) return false;
  }
  // May allocate.
#ifdef __GLIBC__
  __register_atfork(before_fork, after_fork_in_parent, after_fork_in_child, &__dso_handle);
#else
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
#endif
  return true;
}

void leave_children_alone(char** environment) noexcept {
  // Takes our file's name out of LD_PRELOAD, in place: the list is separated by spaces or colons.
  char* list = variable(environment, "LD_PRELOAD");
  if (!list) return;
#ifndef MORTISE_FILE  // another name than that of the allocators that ship
#define MORTISE_FILE "libmortise-" MORTISE_FILE_NAME ".so"
#endif
  constexpr const char* kFile = MORTISE_FILE;
  char* const at = strstr(list, kFile);
  if (!at) return;
  char* first = at;
  while (first > list && first[-1] != ' ' && first[-1] != ':') --first;
  char* last = at + strcspn(at, " :");
  if (*last) ++last;
  memmove(first, last, strlen(last) + 1);
}

/// The reserve that the settings ask for, before the program begins. A template, so that heaps without one need nothing.
template <class H> void fill_reserve(H& h) noexcept {
  if constexpr (Reserves<H>) {
    const Reserve& r = settings.reserve;
    if (!r.bytes && r.on_exhausted == OnExhausted::grow) return;
    if (!prepare_thread() || !h.reserve(thread(), r)) {
      os::Line<> line;
      line.text("mortise[").text(Card::kName).text("] warning: the reserve of ").number(r.bytes >> 20);
      line.text(" MiB is not whole: more than fits, or see the limits on memory (ulimit -l, -v)").flush();
    }
    leave_if_ended();
    if (settings.refill_ahead && !refill_ahead()) {
      os::Line<> line;
      line.text("mortise[").text(Card::kName).text("] warning: refill_ahead: the system refused a thread").flush();
    }
  }
}

/// The soft limit is on by itself below a hard one, and where a control group would end the program.
template <class H> void set_limits(H& h) noexcept {
  if constexpr (Limits<H>)
    if (settings.limit) h.set_limit_bytes(settings.limit);
  if constexpr (Yields<H>) {
    constexpr std::uint64_t kOfGroup = 80, kOfLimit = 95;
    if (!settings.has_soft_limit) {
      if (settings.limit) settings.soft_limit = settings.limit / 100 * kOfLimit;
      const std::uint64_t group = os::memory_in_group();
      const std::uint64_t most = group == os::kNoGroupLimit ? 0 : group / 100 * kOfGroup;
      if (most && (!settings.soft_limit || most < settings.soft_limit)) settings.soft_limit = most;
    }
    h.set_soft_limit_bytes(settings.soft_limit);
  }
}

/// A heap for each memory node that the program runs on.
template <class H> void split_by_node([[maybe_unused]] H& h) noexcept {
  if constexpr (requires { h.split(settings.nodes, facts); }) {
    using Nodes = Settings::Nodes;
    if (settings.which_nodes == Nodes::off) return;
    if (settings.which_nodes == Nodes::machine) settings.nodes = os::nodes_allowed(os::read_nodes());
    h.split(settings.nodes, facts);
  }
}

template <class H> void tell_nodes([[maybe_unused]] os::Line<>& line, [[maybe_unused]] H& h) noexcept {
  if constexpr (requires { h.node_count(); })
    if (h.node_count()) line.text(" nodes=").number(h.node_count());
}

template <class H> void set_sampling(H& h) noexcept {
  if constexpr (Profiles<H>)
    if (settings.sample_bytes) h.set_mean(settings.sample_bytes);
}

constinit struct stat standard_error{};  // as it was at start

/// Whether number 2 may be written to at the end: not a file or a connection that the program opened there since, but for a log.
bool is_standard_error() noexcept {
  struct stat now;
  if (os::syscall(SYS_fstat, 2L, &now) != 0) return false;
  if (now.st_dev == standard_error.st_dev && now.st_ino == standard_error.st_ino) return true;
  return !S_ISSOCK(now.st_mode) && !(S_ISREG(now.st_mode) && !(os::syscall(SYS_fcntl, 2L, static_cast<long>(F_GETFL)) & O_APPEND));
}

/// Writes what `write` says to the file of a setting, or to standard error where it names none.
template <class Write> void write_at_end(const char* setting, Write&& write) noexcept {
  const PathNow now(setting);
  const char* const path = now.text;
  if (!*setting && !is_standard_error()) return;
  const int fd = *setting ? os::create_file(path) : 2;
  if (fd < 0) return warn_of_file("cannot write ", path);
  os::Output out(fd);
  write(out);
  if (*setting && !out.close()) warn_of_full_file(path);
}

Place other_malloc() noexcept { return malloc_in_front ? malloc_in_front() : Place{}; }

void say_hello() noexcept {
  os::Line<> line;
  const Place other = other_malloc();
  line.text("mortise " MORTISE_VERSION " ")
      .text(Card::kName)
      .text(other.file[0] ? " inactive pid=" : " active pid=")
      .number(static_cast<std::uint64_t>(getpid()));
  if (other.file[0]) return line.text(" malloc=").text(other.file).flush();
  line.text(" cpus=").number(facts.cpus).text(" page=").number(facts.page_bytes);
  line.text(" caches=")
      .text(!facts.rseq.is_kernels         ? "own"
            : facts.rseq.is_concurrency_id ? "rseq,concurrency-id"
                                           : "rseq,cpu");
  const std::int64_t ms = purge_ms_below(heap);
  line.text(" purge_ms=").text(ms < 0 ? "-" : "").number(static_cast<std::uint64_t>(ms < 0 ? -ms : ms));
  constexpr const char* kStats[] = {"none", "exit", "json"};
  line.text(" stats=").text(kStats[static_cast<int>(settings.stats_at_exit)]);
  if (settings.limit) line.text(" limit=").number(settings.limit);
  if (settings.soft_limit) line.text(" soft_limit=").number(settings.soft_limit);
  tell_nodes(line, heap);
  constexpr const char* kHuge[] = {"auto", "never", "madvise"};
  line.text(" huge=").text(kHuge[static_cast<int>(settings.huge)]);
  line.flush();
}

/// Linked in, our malloc stands in front of AddressSanitizer's, which then has no block to watch and says nothing of that.
void warn_of_address_sanitizer() noexcept {
  if (!__asan_init || !malloc_in_front || other_malloc().file[0]) return;
  os::Line<> line;
  line.text("mortise[").text(Card::kName).text("] warning: AddressSanitizer sees no block of this heap: link one of the two").flush();
}

/// Runs before libc's own constructor has set `environ`; glibc hands the environment to constructors, others set it
/// before.
[[gnu::constructor(101)]] void load([[maybe_unused]] int count, [[maybe_unused]] char** arguments,
                                    char** environment) noexcept {
#if !defined(__GLIBC__)
  environment = ::environ;
#else
  if (!::environ) ::environ = environment;  // an allocator in front of ours that we ask for a block reads its settings then
#endif
  if (is_behind_libc(place_of(&heap))) fork_gate.come_late();
  start();
  own_memory();
  has_exit_key = pthread_key_create(&exit_key, end_thread) == 0;
  read_settings(environment);
  if (look_to_the_front) look_to_the_front();
  if (settings.stats_at_exit != Settings::AtExit::nothing) os::syscall(SYS_fstat, 2L, &standard_error);
  split_by_node(heap);
  if (settings.purge_ms != -2) set_purge_ms_below(heap, settings.purge_ms);
  set_limits(heap);
  set_sampling(heap);
  // A huge page brings in what lies beside it: a limit that is to be met cannot have that.
  if (settings.limit && settings.huge == HugePages::automatic) settings.huge = HugePages::never;
  set_huge_pages_below(heap, settings.huge);
  if (settings.only_self) leave_children_alone(environment);
  if (settings.inspect) os::syscall(SYS_prctl, PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0L, 0L, 0L);
  fill_reserve(heap);
  if (settings.verbose) say_hello();
  warn_of_address_sanitizer();
  AffinitySettings<Heap>::hand_over(heap);
}

[[gnu::destructor(101)]] void unload() noexcept {
  AffinitySettings<Heap>::at_exit(heap);
  if (*settings.profile) write_at_end(settings.profile, write_profile);
  if (settings.stats_at_exit == Settings::AtExit::text) write_at_end(settings.stats_file, print_statistics);
  if (settings.stats_at_exit == Settings::AtExit::json) write_at_end(settings.stats_file, print_statistics_as_json);
}

}  // namespace

void leave_if_ended() noexcept {
  if (has_ended(thread_record)) [[unlikely]] detach_thread();
}

os::RseqArea core_area() noexcept { return facts.rseq; }

bool prepare_thread() noexcept {
  if (state.load(Order::acquire) <= 0) [[unlikely]]
    if (!start()) return false;
  return thread_record.ready() || get_record(thread_record);
}

}  // namespace mortise::abi
