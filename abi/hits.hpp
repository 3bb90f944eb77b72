// Which hit is tried where: inline in every entry point, or out of line before all else.
#pragma once

#include "mortise/core/core.hpp"

namespace mortise::abi {

/// Is several heaps (PerNode). Blocks that it `may_hit` are worth an inlined try; what is not served inline may be a hit elsewhere.
template <class H> concept HitsAway = Hits<H> && requires(H& h, typename H::Thread& t, std::byte* p, Request r) {
  { h.allocate_hit_away(t, r) } noexcept -> std::same_as<Block>;
  { h.may_hit(p) } noexcept -> std::same_as<bool>;
  { h.release_hit_away(t, p) } noexcept -> std::same_as<bool>;
};

template <class H> MORTISE_HOT bool may_hit(H& h, const std::byte* p) noexcept {
  if constexpr (HitsAway<H>) return h.may_hit(p);
  else return h.holds(p);
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
