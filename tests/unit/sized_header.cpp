// If this failed, free(p) over a heap without a page index would release the wrong block, or take a foreign pointer for its own.
#include "mortise/shape/sized_header.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "mortise/source/malloc_heap.hpp"

namespace mortise::test {
namespace {

using H = Stack<Layers<SizedHeader, MallocHeap>>;

TEST(SizedHeader, KnowsSizeAndAlignmentFromThePointerAlone) {
  H h;
  H::Thread t;
  for (const std::size_t align : {16, 64, 4096}) {
    const Block b = h.allocate(t, {.size = 100, .align = align});
    ASSERT_TRUE(is_aligned(b.ptr, align));
    EXPECT_TRUE(h.holds(b.ptr));
    EXPECT_EQ(h.block_of(b.ptr).size, b.size);
    h.release(t, h.block_of(b.ptr));
  }
}

TEST(SizedHeader, NoticesAnOverwrittenHeaderAndAForeignPointer) {
  H h;
  H::Thread t;
  alignas(16) std::byte foreign[64] = {};
  EXPECT_FALSE(h.holds(foreign + 16));
  const Block b = h.allocate(t, {.size = 100});
  EXPECT_DEATH(
      {
        std::memset(b.ptr - 16, 0x41, 16);
        h.release(t, b);
      },
      "header_overwritten");
  h.release(t, b);
}

}  // namespace
}  // namespace mortise::test
