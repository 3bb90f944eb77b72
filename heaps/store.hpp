// What all heaps of a program share: one window of addresses, its index, and the free spans in it. The files of abi/ start it,
// carry it over fork and give its idle memory back, as they do for an allocator.
#pragma once

#include "mortise/cache/span_cache.hpp"
#include "mortise/core/core.hpp"
#include "mortise/policy/huge.hpp"
#include "mortise/policy/purge.hpp"
#include "mortise/shape/page_index.hpp"
#include "mortise/source/mmap_heap.hpp"

namespace mortise {

namespace huge {
/// Of a few large heaps, huge pages; of many small ones, none: each touches a page here and there of the spans that it has.
struct AfterShareOfEachHeap {
  static constexpr const char* kName = "AfterShareOfEachHeap";
  static constexpr std::size_t kFromBytes = 16_MiB, kFromBytesOfEach = 4_MiB;
  static std::size_t from_bytes() noexcept;  ///< life.cpp, which counts heaps
};
}  // namespace huge

using StoreLayers = Layers<
    SpanCache<purge::AfterDelay<100>, huge::AfterShareOfEachHeap>,  // free spans, merged, purged when idle
    PageIndex,                                                      // pointer -> span, and whose it is
    MmapHeap<>>;

namespace allocators {
struct heaps {
  using List = StoreLayers;
  using Heap = Stack<StoreLayers>;
  static constexpr const char* kName = "heaps";
};
}  // namespace allocators

}  // namespace mortise
