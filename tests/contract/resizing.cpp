// Should realloc lose a byte on any of its ways (stay, grow in place, move pages, copy), a program's data would be
// gone.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "contract.hpp"

namespace {

using namespace contract;

constexpr std::size_t kSizes[] = {0,      1,      16,     17,     24,     100,     128,           129,    500,
                                  1000,   4095,   4096,   4097,   16384,  16385,   32768,         65536,  65537,
                                  131072, 262144, 262145, 300000, 327680, 1 << 20, (1 << 20) + 1, 5 << 20};

TEST(Resizing, ContentsAreKeptFromEverySizeToEverySize) {
  for (const std::size_t from : kSizes) {
    for (const std::size_t to : kSizes) {
      if (to == 0) continue;  // frees
      void* p = malloc(from);
      ASSERT_NE(p, nullptr);
      write_pattern(p, from, 3);
      p = realloc(p, to);
      ASSERT_NE(p, nullptr) << from << " to " << to;
      ASSERT_TRUE(is_aligned(p, 16));
      ASSERT_GE(malloc_usable_size(p), to);
      ASSERT_TRUE(has_pattern(p, from < to ? from : to, 3)) << from << " to " << to;
      write_pattern(p, to, 4);  // all of it can be written
      ASSERT_TRUE(has_pattern(p, to, 4));
      free(p);
    }
  }
}

TEST(Resizing, ABlockMayGrowInPlaceBesideFreeSpace) {
  for (int i = 0; i < 50; ++i) {
    void* p = malloc(1 << 20);
    void* beside = malloc(4 << 20);
    write_pattern(p, 1 << 20, 5);
    free(beside);
    p = realloc(p, 3 << 20);
    ASSERT_TRUE(has_pattern(p, 1 << 20, 5));
    p = realloc(p, 2 << 20);
    p = realloc(p, 300 << 10);
    ASSERT_TRUE(has_pattern(p, 300 << 10, 5));
    free(p);
  }
}

TEST(Resizing, AlignedBlocksKeepTheirContents) {
  for (std::size_t align = 32; align <= 1 << 20; align *= 2) {
    void* p = aligned_alloc(align, 1000);
    write_pattern(p, 1000, 6);
    p = realloc(p, 100000);
    ASSERT_TRUE(has_pattern(p, 1000, 6)) << align;
    p = realloc(p, 10);
    ASSERT_TRUE(has_pattern(p, 10, 6)) << align;
    free(p);
  }
}

TEST(Resizing, ToZeroFreesAndGivesNull) {
  const std::size_t before = mallinfo2().uordblks;
  for (int i = 0; i < 20000; ++i) {
    EXPECT_EQ(realloc(malloc(400), 0), nullptr);
    EXPECT_EQ(reallocarray(malloc(400), 0, 7), nullptr);
    EXPECT_EQ(__libc_realloc(malloc(400), 0), nullptr);
  }
  EXPECT_EQ(realloc(malloc(2 << 20), 0), nullptr);
  EXPECT_LT(mallinfo2().uordblks, before + 1000000);
}

TEST(Resizing, ShrinkingGivesMemoryBack) {
  void* p = malloc(64 << 20);
  memset(p, 1, 64 << 20);
  const std::size_t full = mallinfo2().hblkhd + mallinfo2().uordblks;
  p = realloc(p, 1 << 20);
  EXPECT_LT(mallinfo2().hblkhd + mallinfo2().uordblks, full - (60 << 20));
  void* q = malloc(10000);
  memset(q, 1, 10000);
  q = realloc(q, 10);
  EXPECT_LT(malloc_usable_size(q), 5001u);
  free(q);
  free(p);
}

/// Blocks grow, shrink, move and go at random, large ones most: their pages move, their neighbours merge and split.
TEST(Resizing, AStormOfLargeBlocksLosesNothing) {
  struct Held {
    void* p = nullptr;
    std::size_t n = 0;
    unsigned seed = 0;
  };
  std::mt19937_64 random(20240229);
  std::vector<Held> held(24);
  const auto check = [](const Held& h) {
    // First and last bytes of every page's worth: enough to see a page that is lost or not its own.
    for (std::size_t at = 0; at < h.n; at += 4096)
      ASSERT_EQ(static_cast<unsigned*>(h.p)[at / 4], h.seed + at / 4096) << h.n;
  };
  const auto mark = [](Held& h, std::size_t from) {
    for (std::size_t at = (from + 4095) / 4096 * 4096; at < h.n; at += 4096)
      static_cast<unsigned*>(h.p)[at / 4] = static_cast<unsigned>(h.seed + at / 4096);
  };
  for (unsigned step = 0; step < 2500; ++step) {
    Held& h = held[random() % held.size()];
    const std::size_t n = (std::size_t{1} << (14 + random() % 9)) + random() % 5 * 4096;
    if (!h.p) {
      h = {random() % 3 ? malloc(n) : calloc(1, n), n, step * 1000};
      ASSERT_NE(h.p, nullptr);
      mark(h, 0);
    } else if (random() % 4 == 0) {
      check(h);
      free(h.p);
      h = {};
    } else {
      check(h);
      h.p = realloc(h.p, n);
      ASSERT_NE(h.p, nullptr);
      const std::size_t kept = h.n < n ? h.n : n;
      h.n = n;
      Held start = h;
      start.n = kept;
      check(start);
      mark(h, kept);
    }
    if (step % 500 == 0) malloc_trim(0);
  }
  for (Held& h : held) {
    if (h.p) check(h);
    free(h.p);
  }
}

}  // namespace
