// A heap that one can create and destroy: what both kinds share, and the two kinds.
#pragma once

#include "heaps/span_lease.hpp"
#include "heaps/store.hpp"
#include "mortise/backbone/slab.hpp"
#include "mortise/backbone/tlsf.hpp"
#include "mortise/cache/core_cache.hpp"
#include "mortise/route/bypass.hpp"
#include "mortise/shape/aligned.hpp"
#include "mortise/source/range_heap.hpp"

/// Links are under the registry's lock. All zeros is a heap in spans that nobody started.
struct mo_heap {
  enum class Kind : std::uint8_t { spans, range, ended } kind;
  char name[32];
  mo_heap *parent, *child;                 ///< its first child
  mo_heap *next, *prev;                    ///< of the registry
  mo_heap *next_sibling, *prev_sibling;    ///< of the parent's children
};

namespace mortise::heaps {

using Store = allocators::heaps::Heap;

using SpanHeapLayers = Layers<
    Aligned,                                                          // alignment beyond 16: a class that has it
    CoreCache<64_KiB>,                                                // hit: a magazine of this core
    Bypass<LargerThan<256_KiB>,                                       // larger blocks are spans of their own
           Slab<classes::Geometric<8, 256_KiB>, FutexLock, fit::FullestFirst>>,
    SpanLease<Store>>;                                                // spans of the store, given back all at once

using RangeHeapLayers = Layers<
    Tlsf<FutexLock>,  // every size, in constant time
    RangeHeap<>>;     // the program's memory

struct SpanHeap : mo_heap {
  using Stack = mortise::Stack<SpanHeapLayers>;
  Stack stack;
  SpanLease<Store>& lease() noexcept { return stack.below.below.below.below; }
};

struct ArenaHeap : mo_heap {
  using Stack = mortise::Stack<RangeHeapLayers>;
  Stack stack;
  RangeHeap<>& range() noexcept { return stack.below; }
};
static_assert(sizeof(ArenaHeap) <= 16_KiB, "the smallest arena has room for blocks");

inline SpanHeap* as_spans(mo_heap* h) noexcept { return h->kind == mo_heap::Kind::spans ? static_cast<SpanHeap*>(h) : nullptr; }
/// Of one that is not in spans. Destroyed heaps are noticed here, until their memory is used for something else.
inline ArenaHeap* as_arena(mo_heap* h) noexcept {
  MORTISE_CHECK(h->kind == mo_heap::Kind::range, Fault::use_after_free, Block(reinterpret_cast<std::byte*>(h), 0));
  return static_cast<ArenaHeap*>(h);
}

/// Calls `f(stack)` with the heap's own stack.
template <class F> MORTISE_HOT decltype(auto) on_stack(mo_heap* h, F&& f) noexcept {
  if (SpanHeap* s = as_spans(h)) [[likely]] return f(s->stack);
  return f(as_arena(h)->stack);
}

/// All heaps, for fork and for whoever asks how the program stands.
struct Registry {
  FutexLock lock;
  mo_heap* first = nullptr;
  Atomic<std::size_t> count{0};  ///< changed under the lock
};
extern constinit Registry registry [[gnu::visibility("hidden")]];

}  // namespace mortise::heaps
