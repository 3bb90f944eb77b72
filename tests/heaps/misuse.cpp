// If this failed, a mistake in the use of a heap would pass in silence, or a program at its limit would lose what it has.
#include "mortise/mortise.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace {

mo_heap* make(const mo_heap_options& options = {}) { return mo_heap_create(&options); }
mo_heap* make_in(void* memory, std::size_t bytes) {
  mo_heap_options options{};
  options.memory = memory;
  options.bytes = bytes;
  return make(options);
}
alignas(64) char memory[1 << 20];

TEST(HeapOptions, ALimitThatNoBlockFitsUnderIsRefused) {
  for (std::size_t limit : {std::size_t{1}, std::size_t{4096}, std::size_t{MO_HEAP_LIMIT_MIN - 1}}) {
    mo_heap_options options{};
    options.limit = limit;
    errno = 0;
    EXPECT_EQ(make(options), nullptr) << limit;
    EXPECT_EQ(errno, EINVAL);
  }
  mo_heap_options least{};
  least.limit = MO_HEAP_LIMIT_MIN;
  mo_heap* heap = make(least);
  ASSERT_NE(heap, nullptr);
  EXPECT_NE(mo_heap_alloc(heap, 16), nullptr);
  mo_heap_set_limit(heap, 1);  // nothing more, whatever is out
  EXPECT_EQ(mo_heap_alloc(heap, 5000), nullptr);
  mo_heap_destroy(heap);
}

TEST(HeapOptions, MemoryThatEndsNowhereIsRefused) {
  errno = 0;
  EXPECT_EQ(make_in(memory, SIZE_MAX), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(HeapOptions, MemoryInWhichAHeapStillLivesIsRefused) {
  mo_heap* arena = make_in(memory, sizeof memory);
  ASSERT_NE(arena, nullptr);
  errno = 0;
  ASSERT_EQ(make_in(memory, sizeof memory), nullptr) << "the list of heaps would end in itself, and fork never";
  EXPECT_EQ(errno, EINVAL);
  const pid_t child = fork();
  if (child == 0) _exit(0);
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  mo_heap_destroy(arena);
  arena = make_in(memory, sizeof memory);
  ASSERT_NE(arena, nullptr) << "it was destroyed";
  EXPECT_NE(mo_heap_alloc(arena, 100), nullptr);
  mo_heap_destroy(arena);
}

TEST(HeapOptions, ADestroyedParentIsRefused) {
  mo_heap_options options{};
  options.parent = make();
  mo_heap_destroy(options.parent);
  errno = 0;
  EXPECT_EQ(make(options), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(HeapNames, AreCutBetweenCharactersAndStayText) {
  const std::string wide = "a request of \u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc";
  mo_heap_options options{};
  options.name = wide.c_str();
  mo_heap* heap = make(options);
  options.name = "one \xff two \xc3";
  mo_heap* odd = make(options);
  std::vector<char> text(1 << 16);
  mo_heap_stats_json(heap, text.data(), text.size());
  EXPECT_NE(strstr(text.data(), ("\"" + wide.substr(0, 31) + "\"").c_str()), nullptr) << text.data();
  mo_heap_stats_json(odd, text.data(), text.size());
  EXPECT_NE(strstr(text.data(), "\"one ? two ?\""), nullptr) << text.data();
  options.name = wide.c_str() + 1;
  mo_heap* shifted = make(options);
  mo_heap_stats_json(shifted, text.data(), text.size());
  EXPECT_NE(strstr(text.data(), ("\"" + wide.substr(1, 30) + "\"").c_str()), nullptr) << text.data();
  for (mo_heap* h : {heap, odd, shifted}) mo_heap_destroy(h);
}

TEST(HeapLimits, ABlockCanBeMadeSmallerWhereThereIsNoRoom) {
  mo_heap_options options{};
  options.limit = 1 << 20;
  for (std::size_t n : {std::size_t{900'000}, std::size_t{200'000}}) {
    mo_heap* heap = make(options);
    auto* p = static_cast<char*>(mo_heap_alloc(heap, n));
    strcpy(p, "stays");
    while (mo_heap_alloc(heap, 30'000)) {}
    while (mo_heap_alloc(heap, 100)) {}
    errno = 0;
    p = static_cast<char*>(mo_heap_realloc(heap, p, 5000));
    ASSERT_NE(p, nullptr) << n;
    EXPECT_EQ(errno, 0);
    EXPECT_STREQ(p, "stays");
    EXPECT_EQ(mo_heap_realloc(heap, p, 2'000'000), nullptr);
    mo_heap_destroy(heap);
  }
}

TEST(HeapAlignments, ThatNobodyCanServeAreNoWrongUse) {
  mo_heap* heap = make();
  for (std::size_t align : {std::size_t{1} << 50, std::size_t{1} << 62, std::size_t{1} << 63}) {
    errno = 0;
    EXPECT_EQ(mo_heap_alloc_aligned(heap, align, 10), nullptr);
    EXPECT_EQ(errno, ENOMEM) << align;
  }
  for (std::size_t align : {std::size_t{0}, std::size_t{24}, SIZE_MAX}) {
    errno = 0;
    EXPECT_EQ(mo_heap_alloc_aligned(heap, align, 10), nullptr);
    EXPECT_EQ(errno, EINVAL) << align;
  }
  mo_heap_destroy(heap);
}

TEST(HeapCrimes, ABlockOfAnotherHeapIsNoMatterOfMalloc) {
  mo_heap* heap = make();
  void* const p = malloc(100);
  EXPECT_DEATH(mo_heap_free(heap, p), "fault=invalid_free.*to the heap it came from");
  free(p);
  mo_heap_destroy(heap);
}

TEST(HeapCrimes, DestroyedHeapsAreNoticed) {
  mo_heap* heap = make();
  mo_heap* other = make();
  mo_heap_destroy(heap);
  EXPECT_DEATH(mo_heap_destroy(heap), "fault=double_free");
  EXPECT_DEATH(static_cast<void>(mo_heap_alloc(heap, 100)), "fault=use_after_free");
  EXPECT_DEATH(mo_heap_set_limit(heap, 1 << 20), "fault=use_after_free");
  EXPECT_DEATH(mo_heap_trim(heap), "fault=use_after_free");
  mo_heap* arena = make_in(memory, sizeof memory);
  mo_heap_destroy(arena);
  EXPECT_DEATH(mo_heap_destroy(arena), "fault=double_free");
  EXPECT_DEATH(static_cast<void>(mo_heap_alloc(arena, 100)), "fault=use_after_free");
  EXPECT_NE(mo_heap_alloc(other, 100), nullptr);
  mo_heap_destroy(other);
}

}  // namespace
