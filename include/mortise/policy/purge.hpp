// The Purge slot: when do the pages of free spans go back to the system?
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "mortise/core/units.hpp"

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

/// When free spans hold more than so much: some go back, the smallest first, until they do not. No clock, no thread: a release pays
/// for it.
/// `kBytes` (0..1 TiB): what free spans may keep.
template <std::size_t kBytes = 16_MiB> struct ByteCap {
  static constexpr const char* kName = "ByteCap";
  static constexpr std::int64_t kDelayMs = -1;
  static constexpr std::size_t kKeptBytesMax = kBytes;
};

}  // namespace mortise::purge
