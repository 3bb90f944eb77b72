// Should a block be too small, ill aligned, or calloc's not zero, programs would corrupt themselves.
#include <gtest/gtest.h>

#include <vector>

#include "contract.hpp"

namespace {

using namespace contract;
constexpr std::size_t kEverySize = 70000, kAlignMax = 64u << 20;

TEST(Sizes, EverySizeIsAlignedUsableAndOwned) {
  for (std::size_t n = 0; n <= kEverySize; ++n) {
    void* blocks[] = {malloc(n),        calloc(n, 1),       realloc(nullptr, n), reallocarray(nullptr, 1, n),
                      __libc_malloc(n), __libc_calloc(1, n)};
    for (void* p : blocks) {
      ASSERT_NE(p, nullptr) << n;
      ASSERT_TRUE(is_aligned(p, alignof(std::max_align_t))) << n;
      ASSERT_GE(malloc_usable_size(p), n);
    }
    for (void* p : blocks) free(p);
  }
}

using Aligned = void* (*)(std::size_t, std::size_t);
void* by_posix(std::size_t align, std::size_t n) {
  void* p = nullptr;
  return posix_memalign(&p, align, n) == 0 ? p : nullptr;
}
void* by_posix_alias(std::size_t align, std::size_t n) {
  void* p = nullptr;
  return __posix_memalign(&p, align, n) == 0 ? p : nullptr;
}
constexpr Aligned kAligned[] = {aligned_alloc, memalign, by_posix, by_posix_alias, __libc_memalign};

TEST(Sizes, EverySizeIsAlignedAsAsked) {
  for (const Aligned ask : kAligned) {
    for (std::size_t align = 8; align <= 64 << 10; align *= 2) {
      const std::size_t step = align <= 64 ? 1 : 7;  // every size for the alignments of vectors and cache lines
      for (std::size_t n = 0; n <= kEverySize; n += step) {
        void* p = ask(align, n);
        ASSERT_NE(p, nullptr) << align << " " << n;
        ASSERT_TRUE(is_aligned(p, align)) << align << " " << n;
        ASSERT_GE(malloc_usable_size(p), n);
        free(p);
      }
    }
  }
}

TEST(Sizes, LargeAlignmentsHoldForSmallAndLargeBlocks) {
  for (const Aligned ask : kAligned) {
    for (std::size_t align = 8; align <= kAlignMax; align *= 2) {
      for (const std::size_t n :
           {std::size_t{0}, std::size_t{1}, align - 1, align, align + 1, 2 * align, std::size_t{300000}}) {
        void* p = ask(align, n);
        ASSERT_NE(p, nullptr) << align << " " << n;
        ASSERT_TRUE(is_aligned(p, align)) << align << " " << n;
        const std::size_t usable = malloc_usable_size(p);
        ASSERT_GE(usable, n);
        if (n) static_cast<char*>(p)[0] = static_cast<char*>(p)[n - 1] = 1;
        free_aligned_sized(p, align, n);
      }
    }
  }
}

TEST(Sizes, PageAlignedForms) {
  for (std::size_t n = 0; n < 20000; n += 13) {
    void *a = valloc(n), *b = pvalloc(n), *c = __libc_valloc(n), *d = __libc_pvalloc(n);
    for (void* p : {a, b, c, d}) ASSERT_TRUE(p && is_aligned(p, 4096)) << n;
    ASSERT_GE(malloc_usable_size(b), (n + 4095) / 4096 * 4096);
    ASSERT_GE(malloc_usable_size(d), (n + 4095) / 4096 * 4096);
    for (void* p : {a, b, c, d}) free(p);
  }
}

TEST(Sizes, BlocksOfSizeZeroAreDistinct) {
  void *a = malloc(0), *b = malloc(0), *c = calloc(0, 8), *d = aligned_alloc(64, 0);
  EXPECT_TRUE(a && b && c && d);
  EXPECT_NE(a, b);
  EXPECT_NE(c, d);
  for (void* p : {a, b, c, d}) free(p);
}

TEST(Sizes, UsableBytesBelongToTheBlockAlone) {
  std::vector<std::pair<unsigned char*, std::size_t>> held;
  unsigned seed = 0;
  for (std::size_t n = 0; n < 5000; n += 3) held.emplace_back(static_cast<unsigned char*>(malloc(n)), 0);
  for (std::size_t n = 5000; n < 3 << 20; n = n * 9 / 8) held.emplace_back(static_cast<unsigned char*>(malloc(n)), 0);
  for (auto& [p, usable] : held) {
    ASSERT_NE(p, nullptr);
    usable = malloc_usable_size(p);
    write_pattern(p, usable, seed++);
  }
  seed = 0;
  for (auto& [p, usable] : held) ASSERT_TRUE(has_pattern(p, usable, seed++)) << usable;
  for (auto& [p, usable] : held) free(p);
}

void dirty_then_calloc(std::size_t n) {
  void* a = malloc(n);
  void* b = malloc(n);
  ASSERT_TRUE(a && b) << n;
  memset(a, 0xaa, malloc_usable_size(a));
  memset(b, 0xbb, malloc_usable_size(b));
  free(a);
  free(b);
  void* c = calloc(n, 1);
  void* d = calloc(1, n);
  ASSERT_TRUE(c && d) << n;
  ASSERT_TRUE(is_all(c, 0, n)) << n;
  ASSERT_TRUE(is_all(d, 0, n)) << n;
  free(c);
  free(d);
}

TEST(Sizes, CallocIsZeroOnReusedMemory) {
  for (std::size_t n = 0; n <= 4096; ++n) dirty_then_calloc(n);
  for (std::size_t n = 4096; n <= kEverySize; n += 61) dirty_then_calloc(n);
  for (std::size_t n = kEverySize; n <= 64u << 20; n = n * 3 / 2) dirty_then_calloc(n);
}

TEST(Sizes, CallocIsZeroWhereARealloShrankOrMoved) {
  for (int round = 0; round < 8; ++round) {
    std::size_t n = 8u << 20;
    void* p = malloc(n);
    memset(p, 0xcc, n);
    p = realloc(p, 1u << 20);  // the tail goes back dirty
    void* tail = calloc(1, 6u << 20);
    ASSERT_TRUE(is_all(tail, 0, 6u << 20));
    memset(tail, 0xdd, 6u << 20);
    p = realloc(p, 3u << 20);  // moves: its old place is free
    memset(static_cast<char*>(p) + (1 << 20), 0xee, 2u << 20);
    void* old = calloc(1, 1u << 20);
    ASSERT_TRUE(is_all(old, 0, 1u << 20));
    free(old);
    free(tail);
    if (round % 2) malloc_trim(0);
    void* all = calloc(1, 12u << 20);
    ASSERT_TRUE(is_all(all, 0, 12u << 20));
    memset(all, 0xff, 12u << 20);
    free(p);
    free(all);
  }
}

/// Hardened heaps report a wrong size (tests/crimes); all others ignore it, as the block knows its own.
TEST(Sizes, SizedFreesTakeTheBlockBackAndIgnoreAWrongSize) {
  const char* const preload = getenv("LD_PRELOAD");
  const bool forgives = !preload || !strstr(preload, "hardened");
  const struct mallinfo2 before = mallinfo2();
  for (int i = 0; i < 10000; ++i) {
    free_sized(malloc(100), 100);
    free_sized(malloc(100), forgives ? 7 : 100);
    free_aligned_sized(aligned_alloc(256, 512), 256, 512);
    free_aligned_sized(aligned_alloc(256, 512), 16, forgives ? 1 : 512);
    cfree(malloc(3000));
    __libc_free(malloc(50));
  }
  free_sized(nullptr, 8);
  free_aligned_sized(nullptr, 8, 8);
  cfree(nullptr);
  EXPECT_LT(mallinfo2().uordblks, before.uordblks + 100000);
}

}  // namespace
