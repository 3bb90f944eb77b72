// If this failed, a system with a fixed arena would lose parts of it for ever, or hand out blocks that overlap its tables.
#include "mortise/source/static_heap.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

namespace mortise::test {
namespace {

using H = StaticHeap<256_KiB>;

TEST(StaticHeap, BlocksAndTablesShareTheArrayAndAllOfItComesBack) {
  auto h = std::make_unique<H>();
  H::Thread t;
  std::byte* const table = h->side(10'000);
  ASSERT_TRUE(table);
  Block blocks[64];
  unsigned n = 0;
  while (n < 64 && (blocks[n] = h->allocate(t, {.size = 4096}))) {
    EXPECT_LE(blocks[n].end(), table) << "a block overlaps the table";
    std::memset(blocks[n++].ptr, 0x5a, 4096);
  }
  EXPECT_EQ(n, (256_KiB - 10'000) / 4_KiB);
  EXPECT_FALSE(h->side(4096)) << "nothing is left";
  for (unsigned i = 0; i < n; i += 2) h->release(t, blocks[i]);
  for (unsigned i = 1; i < n; i += 2) h->release(t, blocks[i]);
  const Block all = h->allocate(t, {.size = n * 4_KiB});
  ASSERT_TRUE(all) << "the holes did not merge";
  for (std::size_t i = 0; i < all.size; ++i) ASSERT_EQ(all.ptr[i], std::byte{0});
}

}  // namespace
}  // namespace mortise::test
