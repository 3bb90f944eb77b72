// What pools keep for each thread: its numbers, and its stand-in for the kernel's rseq area. The one thread_local among
// the headers, because pools are used without an allocator that could hand them a record.
//
// 24 bytes of static TLS, reached without a call from executables and from shared objects, also from those opened by
// dlopen. Nothing runs when a thread ends: what a pool keeps, it keeps by core or by thread number, and the next thread
// with that number goes on with it.
#pragma once

#include <sys/syscall.h>

#include <cstdint>

#include "mortise/core/inline.hpp"
#include "mortise/os/rseq.hpp"
#include "mortise/os/syscall.hpp"
#include "mortise/policy/distribution.hpp"
#include "mortise/sync/atomics.hpp"

namespace mortise::pools {

struct ThreadRecord {
  os::OwnArea area;
  std::uint32_t number = 0;  ///< counts threads from 1 in the order of their first calls; 0 = not met yet
  std::uint32_t thread = 0;  ///< the kernel's id
};

/// Hidden: each program or shared object has its own, so that the offset from the thread pointer is known to the
/// linker.
[[gnu::visibility("hidden"),
  gnu::tls_model("initial-exec")]] inline constinit thread_local ThreadRecord thread_record{};
[[gnu::visibility("hidden")]] inline constinit Atomic<std::uint32_t> threads_met{0};

/// Hidden as well: of two shared objects that have it the second would call the first one's, which numbers the first one's record, at
/// each call anew.
[[gnu::visibility("hidden")]] MORTISE_COLD inline ThreadRecord& meet_thread() noexcept {
  thread_record.number = threads_met.fetch_add(1, Order::relaxed) + 1;
  thread_record.thread = static_cast<std::uint32_t>(os::syscall(SYS_gettid));
  return thread_record;
}

MORTISE_HOT ThreadRecord& this_thread() noexcept {
  if (!thread_record.number) [[unlikely]]
    return meet_thread();
  return thread_record;
}

/// Out of line: some compilers would fold the address into a vector instruction, which linkers cannot relax.
[[gnu::visibility("hidden"), gnu::noinline]] inline const os::OwnArea* own_area() noexcept { return &thread_record.area; }

/// Where this process finds core indices. Reads the calling thread's area: any thread's answer holds for all.
inline os::RseqArea find_area() noexcept { return os::find_rseq_area(own_area()); }

/// The calling thread as `Rule` sees it. A rule by core needs no record.
template <DistributionRule Rule>
MORTISE_HOT std::uint32_t number_of_caller(const os::RseqArea& area) noexcept {
  if constexpr (Rule::kMayChange) {
    return Rule::number_of({area});
  } else {
    const ThreadRecord& me = this_thread();
    return Rule::number_of({area, me.number - 1, me.thread});
  }
}

/// The pool of `count` that `Rule` names for the calling thread.
template <DistributionRule Rule>
MORTISE_HOT unsigned pool_of_caller(const os::RseqArea& area, unsigned count) noexcept {
  return count == 1 ? 0 : Rule::spread(number_of_caller<Rule>(area), count);
}

}  // namespace mortise::pools
