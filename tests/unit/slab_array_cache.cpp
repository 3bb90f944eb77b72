// If this failed, slabs would wander over the address space as a class breathes, or one would be kept twice.
#include "mortise/cache/slab_array_cache.hpp"

#include <gtest/gtest.h>

#include "mortise/cache/span_cache.hpp"
#include "mortise/source/mmap_heap.hpp"
#include "tests/support/stage.hpp"

namespace mortise::test {
namespace {

using H = Stack<Layers<SlabArrayCache<2, 4>, SpanCache<>, PageIndex, MmapHeap<>>>;

TEST(SlabArrayCache, TheLastOneGivenUpIsTheNextOneUsed) {
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    const Block a = h.allocate(t, {.size = 64_KiB}), b = h.allocate(t, {.size = 64_KiB}), c = h.allocate(t, {.size = 64_KiB});
    h.release(t, a);
    h.release(t, c);
    h.release(t, b);  // no room: goes below
    Usage u;
    h.tell(u);
    EXPECT_EQ(u.cached, 2 * 64_KiB);
    EXPECT_EQ(u.live, 0u);
    EXPECT_EQ(h.allocate(t, {.size = 64_KiB}).ptr, c.ptr);
    EXPECT_EQ(h.allocate(t, {.size = 60'000}).ptr, a.ptr);
    h.audit();
  });
}

TEST(SlabArrayCache, KeepsLengthsApartAndLetsLongOnesBy) {
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    const Block two = h.allocate(t, {.size = 128_KiB}), long_one = h.allocate(t, {.size = 5 * 64_KiB});
    h.release(t, two);
    h.release(t, long_one);
    Usage u;
    h.tell(u);
    EXPECT_EQ(u.cached, 128_KiB);
    EXPECT_NE(h.allocate(t, {.size = 64_KiB}).ptr, two.ptr);
    EXPECT_EQ(h.allocate(t, {.size = 128_KiB, .zeroed = true}).ptr, two.ptr);
  });
}

TEST(SlabArrayCache, GivesAllOfThemBelowWhenTrimmed) {
  Stage<H> stage;
  stage.as(0, [](H& h, auto& t) {
    const Block a = h.allocate(t, {.size = 64_KiB}), b = h.allocate(t, {.size = 128_KiB});
    h.release(t, a);
    h.release(t, b);
    h.trim(t);
    Usage u;
    h.tell(u);
    EXPECT_EQ(u.cached, 0u);
    EXPECT_EQ(u.mapped, u.dirty + u.purged);
  });
}

}  // namespace
}  // namespace mortise::test
