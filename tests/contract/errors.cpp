// Should an overflow or a refusal go unnoticed, a program would write past a block that is too small.
#include <gtest/gtest.h>

#include <functional>

#include "contract.hpp"

namespace {

using namespace contract;

/// Opaque to the compiler, which would otherwise warn of sizes this large.
std::size_t opaque(std::size_t n) {
  asm volatile("" : "+r"(n));
  return n;
}

const std::size_t kTooLarge[] = {SIZE_MAX,           SIZE_MAX - 15,        SIZE_MAX - 4096,
                                 SIZE_MAX / 2 + 1,   SIZE_MAX / 2 + 4096,  PTRDIFF_MAX,
                                 PTRDIFF_MAX - 4096, std::size_t{1} << 62, std::size_t{1} << 50};

void expect_enomem(const char* what, std::size_t n, const std::function<void*()>& call) {
  errno = 0;
  void* p = call();
  EXPECT_EQ(p, nullptr) << what << " " << n;
  EXPECT_EQ(errno, ENOMEM) << what << " " << n;
  free(p);
}

TEST(Errors, WhatIsTooLargeGivesEnomem) {
  for (const std::size_t large : kTooLarge) {
    const std::size_t n = opaque(large);
    expect_enomem("malloc", n, [n] { return malloc(n); });
    expect_enomem("calloc", n, [n] { return calloc(n, 1); });
    expect_enomem("calloc", n, [n] { return calloc(1, n); });
    expect_enomem("realloc", n, [n] { return realloc(nullptr, n); });
    expect_enomem("reallocarray", n, [n] { return reallocarray(nullptr, n, 1); });
    expect_enomem("aligned_alloc", n, [n] { return aligned_alloc(64, n); });
    expect_enomem("aligned_alloc", n, [n] { return aligned_alloc(1u << 20, n); });
    expect_enomem("memalign", n, [n] { return memalign(8, n); });
    expect_enomem("memalign", n, [n] { return memalign(4096, n); });
    expect_enomem("valloc", n, [n] { return valloc(n); });
    expect_enomem("pvalloc", n, [n] { return pvalloc(n); });
    expect_enomem("__libc_malloc", n, [n] { return __libc_malloc(n); });
    expect_enomem("__libc_calloc", n, [n] { return __libc_calloc(n, 1); });
    expect_enomem("__libc_memalign", n, [n] { return __libc_memalign(64, n); });
    expect_enomem("__libc_valloc", n, [n] { return __libc_valloc(n); });
    expect_enomem("__libc_pvalloc", n, [n] { return __libc_pvalloc(n); });
  }
}

TEST(Errors, ProductsThatOverflowGiveEnomem) {
  const std::size_t half = opaque(SIZE_MAX / 2 + 1), root = opaque(std::size_t{1} << 32);
  expect_enomem("calloc", half, [=] { return calloc(half, 2); });
  expect_enomem("calloc", root, [=] { return calloc(root, root); });
  expect_enomem("calloc", root, [=] { return calloc(root + 1, root); });
  expect_enomem("__libc_calloc", root, [=] { return __libc_calloc(root + 1, root); });
  void* p = malloc(100);
  write_pattern(p, 100, 1);
  expect_enomem("reallocarray", half, [=] { return reallocarray(p, half, 2); });
  expect_enomem("reallocarray", root, [=] { return reallocarray(p, root + 1, root); });
  EXPECT_TRUE(has_pattern(p, 100, 1));
  free(p);
}

TEST(Errors, AReallocThatFailsLeavesTheBlockAlone) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{100}, std::size_t{5000}, std::size_t{1} << 20}) {
    void* p = malloc(size);
    write_pattern(p, size, 2);
    for (const std::size_t large : kTooLarge) {
      const std::size_t n = opaque(large);
      expect_enomem("realloc", n, [=] { return realloc(p, n); });
      expect_enomem("__libc_realloc", n, [=] { return __libc_realloc(p, n); });
    }
    EXPECT_TRUE(has_pattern(p, size, 2));
    free(p);
  }
}

TEST(Errors, PosixMemalignReturnsItsErrorAndTouchesNothingElse) {
  int here;
  for (const std::size_t align :
       {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{4}, std::size_t{7}, std::size_t{12},
        std::size_t{24}, std::size_t{96}, opaque(SIZE_MAX), opaque(SIZE_MAX / 2)}) {
    void* out = &here;
    errno = 77;
    EXPECT_EQ(posix_memalign(&out, align, 100), EINVAL) << align;
    EXPECT_EQ(out, &here);
    EXPECT_EQ(errno, 77);
  }
  for (const std::size_t large : kTooLarge) {
    void* out = &here;
    EXPECT_EQ(posix_memalign(&out, 64, opaque(large)), ENOMEM) << large;
    EXPECT_EQ(out, &here);
  }
  void* out = &here;
  errno = 77;
  EXPECT_EQ(posix_memalign(&out, 8, 0), 0);
  EXPECT_NE(out, &here);
  EXPECT_EQ(errno, 77);
  free(out);
}

TEST(Errors, AlignmentsThatAreNoPowerOfTwoAreRoundedUpAsLibcDoes) {
  for (const std::size_t align :
       {std::size_t{0}, std::size_t{1}, std::size_t{3}, std::size_t{24}, std::size_t{100}, std::size_t{5000}}) {
    std::size_t power = 16;
    while (power < align) power *= 2;
    for (void* p : {memalign(align, 100), aligned_alloc(align, 100), __libc_memalign(align, 100)}) {
      ASSERT_NE(p, nullptr) << align;
      EXPECT_TRUE(is_aligned(p, power)) << align;
      free(p);
    }
  }
  for (const std::size_t align : {opaque(SIZE_MAX / 4 + 2), opaque(SIZE_MAX / 2 + 1)}) {  // 2^63 is one that nobody can serve
    expect_enomem("memalign", align, [=] { return memalign(align, 100); });
    expect_enomem("aligned_alloc", align, [=] { return aligned_alloc(align, 100); });
  }
  for (const std::size_t align : {opaque(SIZE_MAX / 2 + 2), opaque(SIZE_MAX)}) {
    errno = 0;
    EXPECT_EQ(memalign(align, 100), nullptr);
    EXPECT_EQ(errno, EINVAL);
    errno = 0;
    EXPECT_EQ(aligned_alloc(align, 100), nullptr);
    EXPECT_EQ(errno, EINVAL);
  }
}

TEST(Errors, AnAlignmentThatNobodyCanServeGivesEnomem) {
  expect_enomem("aligned_alloc", std::size_t{1} << 61, [] { return aligned_alloc(opaque(std::size_t{1} << 61), 100); });
  expect_enomem("memalign", std::size_t{1} << 50, [] { return memalign(opaque(std::size_t{1} << 50), 100); });
}

TEST(Errors, FreeAndItsLikesLeaveErrnoAlone) {
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{24}, std::size_t{20000}, std::size_t{200000}, std::size_t{5} << 20}) {
    for (int i = 0; i < 200; ++i) {
      void* p = malloc(size);
      errno = 42;
      free(p);
      ASSERT_EQ(errno, 42) << size;
    }
  }
  errno = 42;
  free(nullptr);
  EXPECT_EQ(errno, 42);
}

TEST(Errors, SuccessLeavesErrnoAlone) {
  errno = 42;
  for (std::size_t n = 0; n < 1 << 22; n = n * 2 + 1) {
    void* p = calloc(1, n);
    p = realloc(p, n * 2 + 1);
    free(p);
    ASSERT_EQ(errno, 42) << n;
  }
}

}  // namespace
