// The Route slot: who gets this request?
#pragma once

#include <sched.h>

#include <concepts>
#include <cstddef>

namespace mortise {

/// `claims(size)`: whether a request of that size takes the other way.
template <class R>
concept RoutePolicy = requires(std::size_t size) {
  { R::claims(size) } -> std::same_as<bool>;
  { R::kName } -> std::convertible_to<const char*>;
};

/// `claims_thread()`: whether the calling thread takes the other way. Asked once a thread.
template <class R>
concept ThreadRoute = requires {
  { R::claims_thread() } noexcept -> std::same_as<bool>;
  { R::kName } -> std::convertible_to<const char*>;
};

/// Claims threads that the system schedules in real time (SCHED_FIFO, SCHED_RR) when they first allocate.
struct RealTimeThreads {
  static constexpr const char* kName = "RealTimeThreads";
  static bool claims_thread() noexcept {
    const int policy = ::sched_getscheduler(0);
    return policy == SCHED_FIFO || policy == SCHED_RR;
  }
};

/// Claims the large requests.
/// `kBytes` (0..1 TiB): the largest size that is not claimed.
template <std::size_t kBytes> struct LargerThan {
  static constexpr const char* kName = "LargerThan";
  static constexpr std::size_t kLimit = kBytes;
  static constexpr bool claims(std::size_t size) noexcept { return size > kBytes; }
};

}  // namespace mortise
