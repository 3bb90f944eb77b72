// What a pool is told at its making, and what it tells about itself.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mortise {

/// In front of the shared part each pool has magazines. `automatic` takes the first that this machine has.
enum class pool_front : std::uint8_t {
  automatic,
  cores,    ///< a magazine for each core, by restartable sequences: no atomic read-modify-write on a hit
  threads,  ///< a magazine under a try-lock, found by the thread's number: where there are no restartable sequences
  cpus,     ///< a magazine under a try-lock, found by the CPU: needs no thread-local storage either
  none,     ///< every call goes to the shared stacks
};

struct pool_options {
  std::uint32_t maximum = 0;  ///< objects that exist at a time, at most; must be given
  std::uint32_t prefill = 0;  ///< objects that are made at once; the others when they are needed
  bool padded = true;         ///< each object on cache lines of its own
  pool_front front = pool_front::automatic;
  const char* name = "pool";                     ///< in reports
  void (*on_fault)(const char* line) = nullptr;  ///< checked pools: instead of printing the line and aborting
};

/// Counted where a call misses its magazine, so reading is exact when the pool rests and costs the hits nothing. Amid calls of other
/// threads it is off by what they move meanwhile.
struct pool_statistics {
  static constexpr unsigned kWaitBuckets = 24;
  std::uint32_t maximum = 0;
  std::uint32_t created = 0;  ///< slots that have been in use at least once
  std::uint32_t in_use = 0;   ///< acquired and not released
  std::uint32_t idle = 0;     ///< ready to be acquired
  std::uint32_t bare = 0;     ///< slots whose object was destroyed by trim(), or could not be made
  /// The most that were in use, counting what magazines held: at most capacity_slack() too high.
  std::uint32_t high_water = 0;
  std::uint32_t capacity_slack = 0;  ///< what magazines may hold beyond the reach of other cores without a steal
  std::uint64_t refills = 0;         ///< acquisitions that went to the shared part
  std::uint64_t spills = 0;          ///< releases that did
  std::uint64_t failures = 0;        ///< acquisitions that found nothing
  std::uint64_t steals = 0;          ///< emptyings of other magazines because everything else was empty
  std::uint64_t contention = 0;      ///< repeated exchanges on the shared stacks
  std::uint64_t trims = 0;
  std::uint64_t waits = 0;     ///< calls of acquire_for that had to wait
  std::uint64_t timeouts = 0;  ///< those that ended without an object
  std::uint64_t wait_ns = 0;   ///< time in all of them
  std::uint64_t wait_ns_max = 0;
  std::uint64_t wait_histogram[kWaitBuckets] = {};  ///< [0] below 1 µs, [i] below 2^i µs, the last: longer
};

}  // namespace mortise
