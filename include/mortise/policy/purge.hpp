// The Purge slot: when do the pages of free spans go back to the system?
#pragma once

#include <concepts>
#include <cstdint>

namespace mortise {

/// `kDelayMs`: milliseconds that free pages stay; 0 at once, negative for ever.
template <class P>
concept PurgePolicy = requires {
  { P::kDelayMs } -> std::convertible_to<std::int64_t>;
  { P::kName } -> std::convertible_to<const char*>;
};

}  // namespace mortise

namespace mortise::purge {

/// Never: fastest, keeps the peak.
struct Never {
  static constexpr const char* kName = "Never";
  static constexpr std::int64_t kDelayMs = -1;
};

/// At once, on release: smallest, pays a system call and fresh page faults each time.
struct AtOnce {
  static constexpr const char* kName = "AtOnce";
  static constexpr std::int64_t kDelayMs = 0;
};

/// When a span has been free for a while; the option `purge_ms` overrides it at run time.
/// `kMs` (1..3600000): milliseconds.
template <std::int64_t kMs = 100> struct AfterDelay {
  static constexpr const char* kName = "AfterDelay";
  static constexpr std::int64_t kDelayMs = kMs;
};

}  // namespace mortise::purge
