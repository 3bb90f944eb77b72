// Which hit is tried where: inline in every entry point, or out of line before all else.
#pragma once

#include "abi/heap.hpp"
#include "mortise/core/core.hpp"

namespace mortise::abi {

/// Is several heaps (PerNode). Blocks that it `may_hit` are worth an inlined try; what is not served inline may be a hit elsewhere.
template <class H> concept HitsAway = Hits<H> && requires(H& h, typename H::Thread& t, std::byte* p, Request r) {
  { h.allocate_hit_away(t, r) } noexcept -> std::same_as<Block>;
  { h.may_hit(p) } noexcept -> std::same_as<bool>;
  h.nearest();
  { h.release_hit_away(t, p) } noexcept -> std::same_as<bool>;
};

/// Serves hits without a thread's record, but for a countdown of the thread.
template <class H> concept HitsCounted = requires(H& h, typename H::Thread& nobody, std::int32_t& left, Request r) {
  { h.allocate_hit_counted(nobody, left, r) } noexcept -> std::same_as<Block>;
};

/// A hit of malloc with what the stack wants to know of the thread: a record that is ready, a countdown, or nothing (kHitsAlone).
template <class H> MORTISE_HOT Block hit_with_thread(H& h, Request r) noexcept {
#if __STDC_HOSTED__
  if constexpr (HitsCounted<H>) return h.allocate_hit_counted(closed_state<typename H::Thread>, record_of<H>().countdown, r);
#endif
  if constexpr (requires { requires H::kHitsAlone; }) return hit_below(h, closed_state<typename H::Thread>, r);
#if __STDC_HOSTED__
  if constexpr (LiesInRecord<typename H::Thread>) return hit_below(h, record_of<H>().state, r);
#endif
  if (typename H::Thread* const t = thread_if_ready()) [[likely]] return hit_below(h, *t, r);
  return {};
}

template <class H> MORTISE_HOT bool may_hit(H& h, const std::byte* p) noexcept {
  if constexpr (HitsAway<H>) return h.may_hit(p);
  else return h.holds(p);
}

/// The heap whose blocks may hit.
template <class H> MORTISE_HOT auto& nearest(H& h) noexcept {
  if constexpr (HitsAway<H>) return h.nearest();
  else return h;
}

template <class H> MORTISE_HOT std::byte* hit_away(H& h, typename H::Thread* t, Request r) noexcept {
  if constexpr (HitsAway<H>)
    if (t) return h.allocate_hit_away(*t, r).ptr;
  return nullptr;
}
template <class H> MORTISE_HOT bool hit_away(H& h, typename H::Thread* t, std::byte* p) noexcept {
  if constexpr (HitsAway<H>) return t && h.release_hit_away(*t, p);
  return false;
}

}  // namespace mortise::abi
