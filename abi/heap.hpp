// The one heap of a mortise shared object, and how the files of abi/ reach it. The build names the allocator:
// MORTISE_ALLOCATOR is the last part of its header's name and of its card's (mortise::allocators::hslab).
#pragma once

#include "mortise/core/core.hpp"

#define MORTISE_TEXT_(x) #x
#define MORTISE_TEXT(x) MORTISE_TEXT_(x)
#ifndef MORTISE_FILE_NAME  // the part of the library's file name behind libmortise-
#define MORTISE_FILE_NAME MORTISE_TEXT(MORTISE_ALLOCATOR)
#endif
#include MORTISE_HEADER

#ifdef MORTISE_ANNOTATE
#include "mortise/watch/annotated.hpp"
#endif

#include "abi/thread_record.hpp"
#include "mortise/os/console.hpp"
#include "mortise/os/nodes.hpp"
#include "mortise/sync/atomics.hpp"

namespace mortise::abi {

using Card = allocators::MORTISE_ALLOCATOR;
#ifdef MORTISE_ANNOTATE  // the build option of the same name: for running programs under valgrind
using Heap = Stack<Layers<Annotated<checker::Memcheck>>, Card::List>;
#else
using Heap = Card::Heap;
#endif

static_assert(Locates<Heap>,
              "malloc can only be exported from a stack that finds blocks by pointer: it needs PageIndex or a header");

/// Zero-initialised: a valid, closed heap before anybody has run.
extern constinit Heap heap [[gnu::visibility("hidden")]];

#if __STDC_HOSTED__
extern constinit thread_local ThreadRecord<Heap::Thread> thread_record
    [[gnu::tls_model("initial-exec"), gnu::visibility("hidden")]];
#else
extern constinit Heap::Thread nobody;  ///< without an operating system nothing is kept for a thread (bare.cpp)
#endif

/// Starts the heap on first use and makes this thread's record. False when the system refuses memory. (start.cpp)
bool prepare_thread() noexcept;

/// Ends a miss: a thread whose end has been announced gives its record back at once. (start.cpp)
void leave_if_ended() noexcept;

#if __STDC_HOSTED__
/// The thread's record, for hits that know what to do with one that nobody has made.
template <class H> MORTISE_HOT ThreadRecord<typename H::Thread>& record_of() noexcept { return thread_record; }
#endif

/// This thread's record of the stack, or null before its first miss. A stack without thread state has none to wait for.
MORTISE_HOT Heap::Thread* thread_if_ready() noexcept {
#if __STDC_HOSTED__
  return thread_record.ready();
#else
  return &nobody;
#endif
}

/// After `prepare_thread`.
MORTISE_HOT Heap::Thread& thread() noexcept { return *thread_if_ready(); }

/// What every entry point falls back on when there is no hit: starts what must be started and goes down the stack.
/// Null, and errno set, without memory. (malloc.cpp)
void* allocate_slow(std::size_t size, std::size_t align, bool zeroed) noexcept;

/// What operator new does without memory: asks the program's new-handler to make room, then throws, or gives null. `caller` is the
/// place that it was called from. (new.cpp)
void* new_failed(std::size_t size, std::size_t align, bool may_throw, const void* caller);

/// Tells the background purge that memory was freed. (idle.cpp)
void note_release() noexcept;
/// Whether the thread that gives memory back is there, be it at its end, or is being started. (idle.cpp)
[[gnu::visibility("hidden")]] bool idle_thread_runs() noexcept;
/// While one lives, and after `for_good`, there is no thread of ours: one that is there ends first, for which the constructor waits up to a
/// second, and is started again by the destructor. Nothing in the child of a vfork. (idle.cpp)
class KeptAway {
 public:
  KeptAway() noexcept;
  KeptAway(const KeptAway&) = delete;
  KeptAway& operator=(const KeptAway&) = delete;
  ~KeptAway();
  bool for_good() noexcept;  ///< false where it is nothing, or was so before

 private:
  const bool counts_;
};
void reset_idle_after_fork() noexcept;
/// This process is the one whose memory this is, as at start. (idle.cpp)
void own_memory() noexcept;
/// Starts the thread that fills the reserve up as the settings say; it does nothing else. False where there can be none. (idle.cpp)
bool refill_ahead() noexcept;
#if __STDC_HOSTED__
/// Where threads find their core index. (start.cpp)
os::RseqArea core_area() noexcept;
#endif

/// Counts of what happened at the seam between program and heap.
struct Events {
  Atomic<std::size_t> foreign_frees{0};  ///< pointers that were not ours, passed on to the next allocator
};
extern constinit Events events [[gnu::visibility("hidden")]];

/// Settings of MORTISE_CONF. (conf.cpp)
struct Settings {
  std::int64_t purge_ms = -2;  ///< -2: as composed
  enum class AtExit : std::uint8_t { nothing, text, json } stats_at_exit = AtExit::nothing;
  char stats_file[256] = {};  ///< where they go; empty: standard error
  bool verbose = false;
  bool only_self = false;
  bool inspect = false;
  Reserve reserve{};
  bool refill_ahead = false;
  bool goes_on = false;        ///< after a fault that leaves a safe way on
  char report_file[256] = {};  ///< where reports are written besides standard error
  char exceptions[256] = {};   ///< the file that says for which program a fault is no reason to end
  std::uint64_t limit = 0;        ///< bytes; 0: none
  std::uint64_t soft_limit = 0;   ///< bytes; 0: none
  bool has_soft_limit = false;    ///< set by the user, be it to none
  char profile[256] = {};         ///< where the heap profile goes at the end; empty: nowhere
  std::uint64_t sample_bytes = 0; ///< 0: as composed
  HugePages huge = HugePages::automatic;
  os::NodeMap nodes;              ///< of the user
  enum class Nodes : std::uint8_t { machine, off, named } which_nodes = Nodes::machine;
};
extern constinit Settings settings [[gnu::visibility("hidden")]];
void read_settings(char** environment) noexcept;

/// Where a file is that a setting names and this process writes: each %p in it is the process's id. (conf.cpp)
struct PathNow {
  explicit PathNow(const char* setting) noexcept;
  char text[256];
};

/// One line on standard error: `what` ("cannot write ") of the file at `path`, which a setting names. (report.cpp)
void warn_of_file(const char* what, const char* path) noexcept;
/// The same of one that was opened, and then did not take all that was written.
void warn_of_full_file(const char* path) noexcept;

/// Writes the heap profile; false where this allocator keeps none. (profile.cpp)
bool write_profile(os::Output& out) noexcept;

/// The value of a variable of `environment`, where it lies; null when it is not there.
char* variable(char** environment, const char* name) noexcept;

/// Statistics as text, or as one line of JSON. (snapshot.cpp)
void print_statistics(os::Output& out) noexcept;
void print_statistics_as_json(os::Output& out) noexcept;
std::size_t write_own_json(char* out, std::size_t capacity) noexcept;

}  // namespace mortise::abi
