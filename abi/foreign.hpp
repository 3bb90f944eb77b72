// Pointers that are not the heap's: passed on, or, where the card says so, a fault when they can be nobody's.
#pragma once

#include <stdlib.h>

#include "abi/heap.hpp"
#include "abi/places.hpp"

namespace mortise::abi {

/// Whether the card says that a pointer that cannot be another allocator's is a fault; otherwise it is passed on.
template <class C> constexpr bool kRefusesForeign = requires { requires C::kRefusesForeign; };

/// True: nobody is to be asked about it, and the program wants to go on.
MORTISE_COLD inline bool refuses_foreign(std::byte* p, const void* seen_at) noexcept {
  if (Mappings{}.ground_of(p) == Ground::other) return false;
  const Crime crime{.fault = Fault::invalid_free, .block = {p, 0}, .seen_at = seen_at};
  if (!goes_on_after(crime)) abort();
  return true;
}
template <class C> MORTISE_HOT bool refuses(std::byte* p, const void* seen_at) noexcept {
  if constexpr (kRefusesForeign<C>) return refuses_foreign(p, seen_at);
  return false;
}

}  // namespace mortise::abi
