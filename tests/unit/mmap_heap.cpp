// If this failed, a heap would stop growing although its window has holes, or two heaps in one program would take each other's
// addresses.
#include "mortise/source/mmap_heap.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "mortise/cache/span_cache.hpp"
#include "mortise/shape/block_marks.hpp"
#include "mortise/shape/page_index.hpp"

namespace mortise::test {
namespace {

constexpr std::size_t kSmallWindow = 8_MiB;
using Small = MmapHeap<64_KiB, kSmallWindow>;

TEST(MmapHeap, UsesItsWholeWindowAndFindsHolesAgain) {
  Small h;
  Small::Thread t;
  std::vector<Block> blocks;
  while (const Block b = h.allocate(t, {.size = 64_KiB})) blocks.push_back(b);
  EXPECT_EQ(blocks.size(), kSmallWindow / 64_KiB);
  EXPECT_FALSE(h.allocate(t, {.size = kSmallWindow + 1}));
  for (std::size_t i = 10; i < 20; ++i) h.release(t, blocks[i]);
  const Block b = h.allocate(t, {.size = 10 * 64_KiB});
  EXPECT_EQ(b.ptr, blocks[10].ptr) << "the hole is large enough";
  h.release(t, b);
  for (std::size_t i = 0; i < blocks.size(); ++i)
    if (i < 10 || i >= 20) h.release(t, blocks[i]);
  Usage u;
  h.tell(u);
  EXPECT_EQ(u.mapped, 0u);
}

TEST(MmapHeap, MovesPagesAndLeavesZeroes) {
  Small h;
  Small::Thread t;
  const Block from = h.allocate(t, {.size = 1_MiB}), to = h.allocate(t, {.size = 2_MiB});
  std::memset(from.ptr, 0x5a, from.size);
  EXPECT_EQ(h.move_pages(from.ptr, to.ptr, from.size), PagesMoved::yes);
  EXPECT_EQ(to.ptr[0], std::byte{0x5a});
  EXPECT_EQ(to.ptr[from.size - 1], std::byte{0x5a});
  EXPECT_EQ(from.ptr[0], std::byte{0});
  EXPECT_TRUE(h.purge_pages(to.ptr, to.size));
  EXPECT_EQ(to.ptr[0], std::byte{0});
  h.release(t, from);
  h.release(t, to);
}

TEST(MmapHeap, ManyHeapsLiveInOneProgram) {
  using H = Stack<Layers<SpanCache<>, PageIndex, MmapHeap<>>>;
  std::vector<std::unique_ptr<H>> heaps;
  std::vector<Block> blocks;
  H::Thread t;
  for (int i = 0; i < 100; ++i) {
    heaps.push_back(std::make_unique<H>());
    ASSERT_TRUE(heaps.back()->start(os::Facts{}));
    const Block b = heaps.back()->allocate(t, {.size = 1_MiB});
    ASSERT_TRUE(b) << "heap number " << i;
    std::memset(b.ptr, i, b.size);
    blocks.push_back(b);
  }
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(blocks[i].ptr[12345], static_cast<std::byte>(i));
    heaps[i]->release(t, blocks[i]);
  }
}

/// Beside the window is room for all tables that a stack may have; a heap that found none was one that serves nobody.
TEST(MmapHeap, HasRoomForTheTablesOfFourGuards) {
  const auto has_room = []<class H>(std::unique_ptr<H> h) {
    typename H::Thread t;
    return h->start(os::Facts{}) && h->allocate(t, {.size = 1_MiB});
  };
  EXPECT_TRUE(has_room(std::make_unique<Stack<Layers<PageIndex, BlockMarks<4>, MmapHeap<>>>>()));
  EXPECT_TRUE(has_room(std::make_unique<Stack<Layers<PageIndex, BlockMarks<4>, MmapHeap<4_KiB>>>>()));
  EXPECT_TRUE(has_room(std::make_unique<Stack<Layers<PageIndex, BlockMarks<4>, MmapHeap<64_KiB, 16_MiB>>>>()));
}

}  // namespace
}  // namespace mortise::test
