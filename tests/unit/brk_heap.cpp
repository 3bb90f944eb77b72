// If this failed, a heap on the program break would hand out what libc's own malloc took meanwhile, or never shrink again.
#include "mortise/source/brk_heap.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

namespace mortise::test {
namespace {

using H = BrkHeap<64_KiB, 1_GiB>;

TEST(BrkHeap, WhatIsReleasedAtTheTopGoesBackWithTheHoleBelowIt) {
  H h;
  H::Thread t;
  const Block a = h.allocate(t, {.size = 100'000});
  const Block b = h.allocate(t, {.size = 100'000});
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a.end(), b.ptr) << "one after the other";
  EXPECT_EQ(os::break_now(), b.end());
  h.release(t, a);
  EXPECT_EQ(os::break_now(), b.end()) << "below a block in use nothing can go back";
  h.release(t, b);
  EXPECT_EQ(os::break_now(), a.ptr);
}

TEST(BrkHeap, AHoleIsUsedAgainAndReadsAsZero) {
  H h;
  H::Thread t;
  const Block a = h.allocate(t, {.size = 200'000});
  const Block top = h.allocate(t, {.size = 1});
  std::memset(a.ptr, 0x5a, a.size);
  h.release(t, a);
  const Block again = h.allocate(t, {.size = 100'000});
  EXPECT_EQ(again.ptr, a.ptr);
  for (std::size_t i = 0; i < again.size; ++i) ASSERT_EQ(again.ptr[i], std::byte{0});
  h.release(t, again);
  h.release(t, top);
}

TEST(BrkHeap, WhatOthersTookIsLeftAlone) {
  H h;
  H::Thread t;
  const Block a = h.allocate(t, {.size = 1});
  void* const theirs = ::sbrk(4096);
  ASSERT_NE(theirs, reinterpret_cast<void*>(-1));
  EXPECT_GE(theirs, a.end()) << "libc does not know of our memory, and has taken the break from under it";
  std::memset(a.ptr, 0x5a, a.size);
  std::memset(theirs, 0x77, 4096);
  const Block b = h.allocate(t, {.size = 1});
  EXPECT_GE(b.ptr, static_cast<std::byte*>(theirs) + 4096);
  std::memset(b.ptr, 0, b.size);
  h.release(t, a);  // not the top: theirs lies behind it
  for (int i = 0; i < 4096; ++i) ASSERT_EQ(static_cast<char*>(theirs)[i], 0x77);
  h.release(t, b);
  EXPECT_GE(os::break_now(), static_cast<std::byte*>(theirs) + 4096) << "their memory was given back";
}

TEST(BrkHeap, SaysNoBeyondItsReach) {
  BrkHeap<64_KiB, 1_MiB> h;
  BrkHeap<64_KiB, 1_MiB>::Thread t;
  EXPECT_FALSE(h.allocate(t, {.size = 2_MiB}));
  EXPECT_FALSE(h.allocate(t, {.size = 1, .align = 128_KiB}));
  const Block b = h.allocate(t, {.size = 1_MiB});
  ASSERT_TRUE(b);
  EXPECT_FALSE(h.allocate(t, {.size = 1}));
  h.release(t, b);
}

}  // namespace
}  // namespace mortise::test
