// watch.hpp: which threads fight over which memory (MORTISE_THREADS_WATCH=FILE; FILE receives the findings as JSON).
//
// Threads that share page tables cannot be asked who wrote a page; threads with page tables of their own can. Every few
// milliseconds a round is held: all threads are stopped, then each alone may run for a moment, and afterwards tells
// which pages it wrote. Pages that two threads wrote in one round are *hot*: from then on their bytes are compared
// before and after each solo moment, which says exactly which bytes each thread changed. Two threads in one cache
// line: true sharing where their bytes overlap, false sharing where they do not.
#pragma once

#include <cstddef>
#include <cstdint>

// The library of --watch that records where blocks were allocated; absent without it.
extern "C" __attribute__((weak)) bool mortise_watch_find(const void* address, void** block, unsigned long* bytes, void** site);

namespace mortise::isolate {

inline constexpr std::size_t kLineBytes = 64;
inline constexpr std::size_t kHotPagesMax = 256;
inline constexpr int kWatchedMax = 64;  // threads told apart; further ones are not watched

/// What is known of one cache line of a hot page.
struct WatchedLine {
  std::uint32_t rounds;                // in which two or more threads changed it
  std::uint32_t samples[kWatchedMax];  // solo moments in which the thread changed it
  std::uint64_t bytes[kWatchedMax];    // which bytes of the line the thread ever changed, a bit a byte
};

struct HotPage {
  std::uintptr_t address;
  WatchedLine lines[4096 / kLineBytes];
};

/// Starts watching when asked for; says in one line if this kernel cannot.
void start_watch() noexcept;
bool watching() noexcept;
void forget_watch() noexcept;

/// In the rendezvous signal's handler: does what the watcher asks of this thread. True when there was something.
bool answer_watch() noexcept;

/// At the end of the program: writes the findings.
void write_watch_report() noexcept;

/// watch_scan.cpp: this address space's own write tracking. `arm_tracking` starts an epoch; `collect_written` ends it
/// and calls `note(argument, low, high)` for each run of written pages. False where the kernel has no means.
bool arm_tracking() noexcept;
bool collect_written(void (*note)(void*, std::uintptr_t, std::uintptr_t), void* argument) noexcept;
bool can_track_writes() noexcept;

/// At the end of a thread, which answers no more: closes the descriptors of its tracking.
void end_tracking() noexcept;

/// For the report.
extern HotPage hot_pages[kHotPagesMax];
extern std::size_t hot_page_count;
extern std::uint32_t watch_rounds;

}  // namespace mortise::isolate
