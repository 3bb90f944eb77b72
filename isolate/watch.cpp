// watch.cpp: the rounds. A kernel thread of the leader (the watcher) leads; threads answer in the rendezvous signal.
//
//   watcher                          thread A                     others
//   stop everyone  ----------------> stopped                      stopped
//   copy hot pages
//   run A          ----------------> arm tracking, run ...        stopped
//   (half a millisecond)
//   stop A         ----------------> tell pages, stopped
//   compare hot pages
//   ... the next thread ...
//   let everyone go
#include "watch.hpp"

#include <cstring>
#include <link.h>
#include <sys/uio.h>

#include "kernel_thread.hpp"
#include "message.hpp"
#include "raw.hpp"
#include "region.hpp"
#include "share.hpp"
#include "signals.hpp"
#include "thread.hpp"

namespace mortise::isolate {

constinit HotPage hot_pages[kHotPagesMax]{};
constinit std::size_t hot_page_count = 0;
constinit std::uint32_t watch_rounds = 0;

namespace {

constexpr int kSignal = 33;
constexpr long kSoloNs = 500'000, kBetweenNs = 5'000'000, kPatienceNs = 50'000'000;
constexpr std::size_t kPagesMax = 4096;  // told by one thread in one round; more are not looked at

enum Ask : std::uint32_t { kNothing, kStop, kRun, kTell };
struct Answer {
  std::atomic<std::uint32_t> ask{kNothing};
  std::atomic<std::uint32_t> stopped{0};
  std::uintptr_t pages[kPagesMax];
  std::size_t page_count;
};

constinit KernelThread watcher;
constinit Answer answers[kWatchedMax]{};
constinit std::atomic<bool> active{false};
constinit bool told = false;
constinit unsigned char before[kHotPagesMax][kPage], after[kPage];
constinit bool is_before[kHotPagesMax];
constinit bool changed_this_round[kHotPagesMax][kPage / kLineBytes][kWatchedMax];

struct Range {
  std::uintptr_t low, high;
};
constinit Range ours[2]{};

/// The runtime, and the record of where blocks were allocated, are written by all threads as a matter of course: their pages would take
/// all places of hot ones.
bool is_ours(std::uintptr_t address) noexcept {
  for (const Range& one : ours)
    if (address >= one.low && address < one.high) return true;
  return false;
}

int note_ours(dl_phdr_info* object, std::size_t, void*) noexcept {
  const void* const known[] = {&hot_page_count, reinterpret_cast<const void*>(&mortise_watch_find)};
  Range all{~std::uintptr_t{0}, 0};
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr) & part = object->dlpi_phdr[i];
    if (part.p_type != PT_LOAD) continue;
    const std::uintptr_t low = object->dlpi_addr + part.p_vaddr;
    if (low < all.low) all.low = low;
    if (low + part.p_memsz > all.high) all.high = low + part.p_memsz;
  }
  for (std::size_t i = 0; i < 2; ++i)
    if (const auto at = reinterpret_cast<std::uintptr_t>(known[i]); at >= all.low && at < all.high) ours[i] = all;
  return 0;
}

void nap(long ns) noexcept {
  const timespec t{0, ns};
  raw_syscall(SYS_nanosleep, as_long(&t));
}

void note_pages(void* argument, std::uintptr_t low, std::uintptr_t high) {
  auto* a = static_cast<Answer*>(argument);
  for (; low < high && a->page_count < kPagesMax; low += kPage)
    if (!is_ours(low)) a->pages[a->page_count++] = low;
}

bool is_watched(const Thread& t) noexcept {
  return t.index < kWatchedMax && t.in_use.load() && t.pid.load() > 0 && t.ended.load() == 0;
}

void poke(Thread& t, Ask ask) noexcept {
  answers[t.index].ask.store(ask);
  futex_wake(&answers[t.index].ask, 1);
  if (const int pid = t.pid.load(); pid > 0) send_own_signal(pid, kSignal);
}

/// Waits until the thread has stopped; false when it does not within reason (it blocks signals for a moment, or ended).
bool wait_for_stop(Thread& t) noexcept {
  for (long waited = 0; waited < kPatienceNs; waited += 50'000) {
    if (answers[t.index].stopped.load()) return true;
    if (!is_watched(t)) return false;
    nap(50'000);
  }
  return false;
}

/// False: the program has unmapped it since, or nobody may read it. The kernel is asked, for a fault of the watcher would end the program.
bool read_page(std::uintptr_t address, unsigned char* to) noexcept {
  const iovec mine{to, kPage}, its{reinterpret_cast<void*>(address), kPage};
  return raw_syscall(SYS_process_vm_readv, raw_getpid(), as_long(&mine), 1, as_long(&its), 1) == long{kPage};
}

void compare(int thread) noexcept {
  for (std::size_t p = 0; p < hot_page_count; ++p) {
    HotPage& page = hot_pages[p];
    if (!is_before[p] || !read_page(page.address, after)) continue;
    for (std::size_t l = 0; l < kPage / kLineBytes; ++l) {
      const std::size_t at = l * kLineBytes;
      if (std::memcmp(after + at, before[p] + at, kLineBytes) == 0) continue;
      for (std::size_t b = 0; b < kLineBytes; ++b)
        if (after[at + b] != before[p][at + b]) page.lines[l].bytes[thread] |= 1ull << b;
      ++page.lines[l].samples[thread];
      changed_this_round[p][l][thread] = true;
    }
  }
}

void add_hot_page(std::uintptr_t address) noexcept {
  for (std::size_t i = 0; i < hot_page_count; ++i)
    if (hot_pages[i].address == address) return;
  if (hot_page_count < kHotPagesMax) hot_pages[hot_page_count++].address = address;
}

/// Pages that two threads told of in this round.
void find_hot_pages() noexcept {
  for (int a = 0; a < kWatchedMax; ++a)
    for (int b = a + 1; b < kWatchedMax; ++b)
      for (std::size_t i = 0; i < answers[a].page_count; ++i)
        for (std::size_t j = 0; j < answers[b].page_count; ++j)
          if (answers[a].pages[i] == answers[b].pages[j]) add_hot_page(answers[a].pages[i]);
}

void count_round() noexcept {
  for (std::size_t p = 0; p < hot_page_count; ++p)
    for (std::size_t l = 0; l < kPage / kLineBytes; ++l) {
      int writers = 0;
      for (bool& changed : changed_this_round[p][l]) writers += changed, changed = false;
      if (writers >= 2) ++hot_pages[p].lines[l].rounds;
    }
  ++watch_rounds;
}

void run_alone(Thread& t) noexcept {
  for (std::size_t p = 0; p < hot_page_count; ++p) is_before[p] = read_page(hot_pages[p].address, before[p]);
  Answer& a = answers[t.index];
  a.page_count = 0;
  a.stopped.store(0);
  a.ask.store(kRun);
  futex_wake(&a.ask, 1);
  nap(kSoloNs);
  poke(t, kTell);
  if (wait_for_stop(t)) compare(t.index);
}

void hold_round() noexcept {
  for (Thread& t : threads) {
    if (!is_watched(t)) continue;
    answers[t.index].stopped.store(0);
    answers[t.index].page_count = 0;
    poke(t, kStop);
  }
  bool stopped[kWatchedMax] = {};
  int count = 0;
  for (Thread& t : threads)
    if (is_watched(t)) count += stopped[t.index] = wait_for_stop(t);
  if (count >= 2) {
    for (Thread& t : threads)
      if (is_watched(t) && stopped[t.index]) run_alone(t);
    find_hot_pages();
    count_round();
  }
  for (Answer& a : answers) {
    a.ask.store(kNothing);
    futex_wake(&a.ask, kEveryone);
  }
}

int watch(void*) {
  for (;;) {
    nap(kBetweenNs);
    if (live_threads.load() >= 2) hold_round();
  }
}

}  // namespace

bool watching() noexcept { return active.load(std::memory_order_relaxed); }
void forget_watch() noexcept {
  watcher.forget();
  active.store(false);
}

void start_watch() noexcept {
  const char* file = setting("MORTISE_THREADS_WATCH");
  if (!file || !*file || active.load() || told) return;
  if (!can_track_writes()) {
    told = true;
    say("--watch needs asynchronous write protection (Linux 6.7 or newer, userfaultfd allowed): not watching");
    return;
  }
  dl_iterate_phdr(&note_ours, nullptr);
  if (!active.exchange(true)) watcher.start(&watch);
}

bool answer_watch() noexcept {
  if (!self || self->index >= kWatchedMax) return false;
  Answer& a = answers[self->index];
  std::uint32_t ask = a.ask.load();
  if (ask == kNothing || (ask == kRun && !a.stopped.load())) return false;
  if (ask == kTell) collect_written(&note_pages, &a);
  a.stopped.store(1);
  while ((ask = a.ask.load()) == kStop || ask == kTell) futex_wait(&a.ask, ask);
  if (ask == kRun) arm_tracking();
  return true;
}

}  // namespace mortise::isolate
