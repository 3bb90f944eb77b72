// tlsf and tlsfcc over a static arena, as embedded programs have them, and `tlsfcc_strict`, which keeps nothing for a thread:
// MORTISE_ARENA_OF is the one whose layers it has, MORTISE_ARENA_BYTES the arena's size.
#pragma once

#include "mortise/allocators/tlsf.hpp"
#include "mortise/allocators/tlsfcc.hpp"
#include "mortise/source/static_heap.hpp"

namespace mortise {

/// The arena, in an object that is as large whatever the arena: g++ reaches what lies more than 16 MiB behind a symbol by more instructions.
class Arena : public StaticHeap<MORTISE_ARENA_BYTES> {
  std::byte behind_[1_GiB - MORTISE_ARENA_BYTES + 4_KiB] = {};
};

/// The same layers over the arena, instead of over their own source and its limit.
template <class Kept, class... Rest> struct OnArena;
template <class... Kept, class First, class... Rest>
struct OnArena<Layers<Kept...>, First, Rest...> : OnArena<Layers<Kept..., First>, Rest...> {};
template <class... Kept, class... Rest> struct OnArena<Layers<Kept...>, LimitedTo<>, Rest...> : OnArena<Layers<Kept...>, Rest...> {};
template <class... Kept, class Source> struct OnArena<Layers<Kept...>, Source> {
  using type = Layers<Kept..., Arena>;
};
template <class List> struct Rebased;
template <class... L> struct Rebased<Layers<L...>> : OnArena<Layers<>, L...> {};

namespace allocators {
struct tlsfcc_strict {
  using List = Layers<Tlsf<FlatCombiningLock<>>, LimitedTo<>, MmapHeap<>>;
};
struct arena {
  using List = Rebased<MORTISE_ARENA_OF::List>::type;
  using Heap = Stack<List>;
  static constexpr const char* kName = "arena";
  static constexpr const char* kSummary = "a static arena";
  static constexpr const char* kUse = "counting";
  static constexpr unsigned kMallocBudget = 0, kFreeBudget = 0;
};
}  // namespace allocators

}  // namespace mortise
