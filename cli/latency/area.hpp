// The process's file of records: made before main, made anew in a child of fork, given to threads in pieces.
#pragma once

#include "cli/latency/record.hpp"

namespace mortise::latency {

struct Thread;

struct Area {
  Header* header;            // null: nothing is timed
  std::uint64_t slow_ticks;  // as there, for calls that are being timed when it goes
  bool is_settled;           // whether to time was decided
  bool is_glibc;             // the allocator is glibc's
};
[[gnu::visibility("hidden")]] extern constinit Area area;

/// Gives `t` a record that no thread has, and has it be inside. False: there is none, the thread stays untimed for now. Wait-free,
/// O(records).
bool attach(Thread& t) noexcept;

/// Gives its record back; what it counted stays.
void detach(Thread& t) noexcept;

}  // namespace mortise::latency
