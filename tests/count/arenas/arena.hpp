// tlsf and tlsfcc over a static arena, as embedded programs have them: MORTISE_ARENA is the name of the allocator, MORTISE_ARENA_OF the one
// whose layers it has, MORTISE_ARENA_BYTES the arena's size.
#pragma once

#include "mortise/allocators/tlsf.hpp"
#include "mortise/allocators/tlsfcc.hpp"
#include "mortise/source/static_heap.hpp"

namespace mortise {

template <class List> struct OnArena;
template <class Backbone, class... Below> struct OnArena<Layers<Backbone, Below...>> {
  using type = Layers<Backbone, StaticHeap<MORTISE_ARENA_BYTES>>;
};

namespace allocators {
struct arena {
  using List = OnArena<MORTISE_ARENA_OF::List>::type;
  using Heap = Stack<List>;
  static constexpr const char* kName = "arena";
  static constexpr const char* kSummary = "a static arena";
  static constexpr const char* kUse = "counting";
  static constexpr unsigned kMallocBudget = 0, kFreeBudget = 0;
};
}  // namespace allocators

}  // namespace mortise
