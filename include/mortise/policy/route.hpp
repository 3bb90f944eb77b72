// The Route slot: who gets this request?
#pragma once

#include <sched.h>

#include <concepts>
#include <cstddef>

#include "mortise/core/request.hpp"
#include "mortise/core/units.hpp"

namespace mortise {

/// `claims(r)`: whether request `r` takes the other way. `kLimit`, of a route by size: the largest size that it does not claim.
template <class R>
concept RoutePolicy = requires(Request r) {
  { R::claims(r) } -> std::same_as<bool>;
  { R::kName } -> std::convertible_to<const char*>;
};

/// What a layer says of its route.
template <RoutePolicy R, class Out> void describe_route(Out& layer) {
  layer.policy("Route", R::kName);
  if constexpr (requires { R::kLimit; }) layer.number("limit_bytes", R::kLimit);
}

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

/// Claims the large requests, and earlier those of blocks that grow.
/// `kBytes` (0..1 TiB): the largest size that is not claimed.
/// `kGrowing` (0..1 TiB): the same for a block that grows.
template <std::size_t kBytes, std::size_t kGrowing = 64_KiB> struct LargerThan {
  static constexpr const char* kName = "LargerThan";
  static constexpr std::size_t kLimit = kBytes, kGrowingBytes = kGrowing < kBytes ? kGrowing : kBytes;
  static constexpr bool claims(Request r) noexcept { return r.size > (r.grows ? kGrowingBytes : kLimit); }
};

}  // namespace mortise
