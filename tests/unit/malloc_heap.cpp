// If this failed, a layer over the program's own allocator would get blocks that are misaligned or not zero, or leak them.
#include "mortise/source/malloc_heap.hpp"

#include <gtest/gtest.h>
#include <malloc.h>

namespace mortise::test {
namespace {

TEST(MallocHeap, BlocksAreLibcs) {
  MallocHeap h;
  MallocHeap::Thread t;
  const Block b = h.allocate(t, {.size = 1000});
  ASSERT_TRUE(b);
  EXPECT_EQ(b.size, 1000u);
  EXPECT_GE(::malloc_usable_size(b.ptr), 1000u) << "malloc does not know the block";
  ::free(b.ptr);  // whoever gets it may
  void* const p = ::malloc(100);
  h.release(t, {static_cast<std::byte*>(p), 100});
}

TEST(MallocHeap, AlignsAndZeroes) {
  MallocHeap h;
  MallocHeap::Thread t;
  for (const std::size_t align : {std::size_t{16}, std::size_t{64}, std::size_t{4096}, std::size_t{1_MiB}}) {
    for (int round = 0; round < 2; ++round) {  // the second time it is memory that was used
      const Block b = h.allocate(t, {.size = 5000, .align = align, .zeroed = true});
      ASSERT_TRUE(b);
      EXPECT_TRUE(is_aligned(b.ptr, align));
      for (std::size_t i = 0; i < b.size; ++i) ASSERT_EQ(b.ptr[i], std::byte{0});
      __builtin_memset(b.ptr, 0x5a, b.size);
      h.release(t, b);
    }
  }
}

TEST(MallocHeap, SaysNo) {
  MallocHeap h;
  MallocHeap::Thread t;
  EXPECT_FALSE(h.allocate(t, {.size = SIZE_MAX}));
  EXPECT_FALSE(h.allocate(t, {.size = 1, .align = std::size_t{1} << 63}));
  const Block nothing = h.allocate(t, {.size = 0});
  EXPECT_TRUE(nothing);
  h.release(t, nothing);
}

}  // namespace
}  // namespace mortise::test
