// If this failed, a heap that was composed for huge pages would run on small ones, or hand out its rests twice.
#include "mortise/source/huge_page_heap.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace mortise::test {
namespace {

using H = HugePageHeap<64_KiB, 1_GiB>;

TEST(HugePageHeap, MapsWholeHugePagesAndCutsThem) {
  H h;
  H::Thread t;
  const Block a = h.allocate(t, {.size = 100'000});
  const Block b = h.allocate(t, {.size = 3_MiB});
  ASSERT_TRUE(a && b);
  EXPECT_TRUE(is_aligned(a.ptr, H::kPage)) << "the window begins with a huge page";
  EXPECT_EQ(b.ptr, a.end()) << "the rest of the first page is used";
  Usage u;
  h.tell(u);
  EXPECT_EQ(u.window_bytes, 4_MiB);
  EXPECT_EQ(u.mapped, a.size + b.size);
  EXPECT_TRUE(h.set_aside_bytes() == 0 || h.set_aside_bytes() == 4_MiB);
  h.release(t, a);
  h.release(t, b);
}

TEST(HugePageHeap, WhatIsReleasedIsUsedAgainAndReadsAsZero) {
  H h;
  H::Thread t;
  const Block a = h.allocate(t, {.size = 2_MiB});
  const Block keep = h.allocate(t, {.size = 1});
  std::memset(a.ptr, 0x5a, a.size);
  h.release(t, a);
  const Block again = h.allocate(t, {.size = 2_MiB});
  EXPECT_EQ(again.ptr, a.ptr);
  for (std::size_t i = 0; i < again.size; ++i) ASSERT_EQ(again.ptr[i], std::byte{0});
  h.release(t, again);
  h.release(t, keep);
}

TEST(HugePageHeap, GoesRoundWhatLiesInItsWay) {
  H h;
  H::Thread t;
  const Block a = h.allocate(t, {.size = 1_MiB});
  std::byte* const next_page = h.origin() + H::kPage;
  ASSERT_EQ(os::map_at(next_page, 64_KiB), os::MapAt::done);
  std::memset(next_page, 0x77, 64_KiB);
  const Block b = h.allocate(t, {.size = 2_MiB});
  ASSERT_TRUE(b);
  EXPECT_GE(b.ptr, next_page + H::kPage);
  EXPECT_EQ(next_page[0], std::byte{0x77});
  const Block rest = h.allocate(t, {.size = 1_MiB});
  EXPECT_EQ(rest.ptr, a.end()) << "what was left before it is not lost";
  os::unmap(next_page, 64_KiB);
}

TEST(HugePageHeap, SaysNoBeyondItsReach) {
  HugePageHeap<64_KiB, 4_MiB> h;
  HugePageHeap<64_KiB, 4_MiB>::Thread t;
  EXPECT_FALSE(h.allocate(t, {.size = 5_MiB}));
  const Block all = h.allocate(t, {.size = 4_MiB});
  ASSERT_TRUE(all);
  EXPECT_FALSE(h.allocate(t, {.size = 1}));
  h.release(t, all);
}

}  // namespace
}  // namespace mortise::test
