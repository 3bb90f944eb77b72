// What the latency layer leaves behind: one file a process, MORTISE_LATENCY.PID.N, mapped and written in place, so
// that it is whole however the process ends. The command line reads it afterwards (cli/mortise/latency_file.py); both
// change together.
//
//   Header, padded to 8 KiB | Record 0 | Record 1 | ...        a record belongs to one thread at a time
#pragma once

#include <cstddef>
#include <cstdint>

#include "mortise/data/log_histogram.hpp"

namespace mortise::latency {

using Buckets = LogBuckets<>;

/// What is timed apart. `empty` times nothing, between two calls: what the clock and the machine add to every figure.
enum Kind : std::uint32_t { kMalloc, kCalloc, kRealloc, kAligned, kFree, kEmpty, kKinds };

inline constexpr unsigned kWorst = 10, kRecordsMax = 1024, kPathBytes = 256;
inline constexpr std::size_t kHeaderBytes = 8192;

/// Kernel calls seen in a call: as bits.
enum KernelCall : std::uint32_t {
  kMmap = 1, kMunmap = 2, kMadvise = 4, kMprotect = 8, kMremap = 16, kBrk = 32, kOther = 64, kYield = 128
};

/// What the kernel had done to this thread at one moment.
struct Snapshot {
  std::uint64_t at;  // ticks
  std::uint64_t minor_faults, major_faults, waits, preemptions, brk;
};

/// One slow call, and what the kernel did to its thread from `window` ticks before it began until it ended.
struct Call {
  std::uint64_t ticks, at, size, window;
  std::uint32_t kind, kernel_calls;
  std::uint32_t minor_faults, major_faults, waits, preemptions;
  std::uint64_t offset;      // of the return address in its module
  char module[kPathBytes];   // its end, where it is longer; empty: the program itself; "?": unknown
};

struct Sum {
  std::uint64_t calls;  // timed or not
  std::uint64_t timed;
  std::uint64_t ticks;  // of the timed ones, together, each as often as it counts
  std::uint64_t worst;
};

/// What every timed call touches comes first: one cache line, the half of one, and that of its bucket. A call counts for
/// one, or for 2, 4 or 8 where calls are so dense that fewer are timed (pace).
struct Record {
  std::uint64_t examine_from;                     // calls from so many ticks on are looked at
  std::uint64_t backwards;                        // readings of the clock that were before the one before
  Snapshot known;
  Sum sums[kKinds];
  std::uint64_t counts[Buckets::kCount][kKinds];  // calls that no preemption tore; the usual durations on the first page
  std::uint64_t torn[Buckets::kCount][kKinds];    // calls that one did
  std::uint64_t worst_torn[kKinds];
  std::uint64_t paced_at;  // ticks
  std::uint32_t slow_used, torn_used;
  Call slow[kWorst], torn_calls[kWorst];
};

struct Header {
  char magic[16];  // "mortise-latency3"
  std::uint64_t header_bytes, record_bytes, records, every, is_clock_gettime, slow_ticks, window_ticks;
  std::uint64_t pid, kinds, buckets, parts, worst;
  std::uint64_t untimed_threads;       // beyond kRecordsMax at a time
  std::uint32_t records_used, unused;  // how many were ever taken
  char program[kPathBytes], serves[kPathBytes];
  std::uint32_t owner[kRecordsMax];    // thread id, or 0
};
static_assert(sizeof(Header) <= kHeaderBytes, "the header fits before the first record");

}  // namespace mortise::latency
