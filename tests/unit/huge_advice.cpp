// If this failed, a sleeping program would swell with huge pages that the kernel makes of what was given back, or a program that woke up
// would go on with small pages for ever.
#include "mortise/cache/huge_advice.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "mortise/cache/span_cache.hpp"
#include "mortise/source/mmap_heap.hpp"
#include "tests/support/stage.hpp"

namespace mortise::test {
namespace {

using H = Stack<Layers<SpanCache<purge::AfterDelay<>, huge::After<2_MiB>>, PageIndex, MmapHeap<>>>;

/// What was last said of the mapping at `p`: "hg", "nh", or nothing.
std::string advice_at(const std::byte* p) {
  std::ifstream smaps("/proc/self/smaps");
  std::string line, word;
  for (bool is_ours = false; std::getline(smaps, line);) {
    std::uintptr_t from, to;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2) is_ours = reinterpret_cast<std::uintptr_t>(p) - from < to - from;
    if (!is_ours || line.rfind("VmFlags:", 0) != 0) continue;
    for (std::istringstream flags(line); flags >> word;)
      if (word == "hg" || word == "nh") return word;
  }
  return "";
}

TEST(HugeAdvice, IsTakenBackWhileTheHeapRests) {
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    const Block small = h.allocate(t, {.size = 64_KiB});
    EXPECT_EQ(advice_at(small.ptr), "");
    h.trim(t);
    EXPECT_EQ(advice_at(small.ptr), "") << "nothing was asked for, and nothing is taken back";
    h.allocate(t, {.size = 4_MiB});
    const Block large = h.allocate(t, {.size = 8_MiB});
    EXPECT_EQ(advice_at(large.end() - 1), "hg");
    h.release(t, large);
    EXPECT_EQ(advice_at(large.end() - 1), "hg");
    h.trim(t);
    EXPECT_EQ(advice_at(large.end() - 1), "nh");
    EXPECT_EQ(advice_at(small.ptr), "nh") << "what is in use as well: pages inside it may have gone back";
    h.release(t, small);
    h.release(t, h.allocate(t, {.size = 64_KiB}));
    EXPECT_EQ(advice_at(large.end() - 1), "nh") << "a little work does not wake it";
    const Block again = h.allocate(t, {.size = 8_MiB});
    ASSERT_EQ(again.ptr, large.ptr);
    EXPECT_EQ(advice_at(again.end() - 1), "hg");
  });
}

TEST(HugeAdvice, StaysWhereTheUserGaveIt) {
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    h.set_huge_pages(HugePages::madvise);
    const Block b = h.allocate(t, {.size = 8_MiB});
    h.release(t, b);
    h.trim(t);
    EXPECT_EQ(advice_at(b.ptr), "hg");
  });
}

}  // namespace
}  // namespace mortise::test
