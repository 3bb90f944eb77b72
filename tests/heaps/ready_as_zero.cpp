// If this failed, a heap would be used that was never made: mo_heap_create takes zeros for one, so that it need not touch all of it.
#include "heaps/heap.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <new>

namespace mortise::heaps {
namespace {

TEST(SpanHeap, AMadeOneIsAllZeros) {
  void* const place = std::aligned_alloc(64, round_up(sizeof(SpanHeap), 64));
  std::memset(place, 0xff, sizeof(SpanHeap));
  ::new (place) SpanHeap{};
  const auto* byte = static_cast<const unsigned char*>(place);
  for (std::size_t i = 0; i < sizeof(SpanHeap); ++i) ASSERT_EQ(byte[i], 0) << "byte " << i;
  std::free(place);
}

}  // namespace
}  // namespace mortise::heaps
