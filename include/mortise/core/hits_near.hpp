// Hits for who has looked at the size already: a guard above a cache need not ask twice whether a request is a small one.
#pragma once

#include <concepts>
#include <cstddef>

#include "mortise/core/layer.hpp"

namespace mortise {

/// Has hits that ask nothing: `allocate_hit_near` is allocate_hit for 1 to kNearBytes bytes with no alignment of their own, once `start`
/// has succeeded. For who has looked at the size already.
template <class H> constexpr std::size_t kNearBytesOf = [] {
  if constexpr (requires { H::kNearBytes; }) return H::kNearBytes; else return std::size_t{0};
}();
template <class H> concept HitsNear = Hits<H> && kNearBytesOf<H> != 0 && requires(H& h, typename H::Thread& t, Request r) {
  { h.allocate_hit_near(t, r) } noexcept -> std::same_as<Block>;
};

}  // namespace mortise
