// If these fail, a program that unmaps memory may be given a mapping of another size, twice, or never any back.
#include "mortise/cache/map_cache.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace mortise {
namespace {

using Cache = MapCache<8, 1u << 20>;

TEST(MapCache, GivesTheNewestOfExactlyTheSize) {
  Cache cache;
  EXPECT_FALSE(cache.put({0x1000, 4096}));
  EXPECT_FALSE(cache.put({0x9000, 4096}));
  EXPECT_FALSE(cache.put({0x20000, 65536}));
  EXPECT_EQ(cache.take(4096).low, 0x9000u);
  EXPECT_EQ(cache.take(4096).low, 0x1000u);
  EXPECT_FALSE(cache.take(4096));
  EXPECT_FALSE(cache.take(8192));
  EXPECT_EQ(cache.kept_bytes(), 65536u);
}

TEST(MapCache, HandsBackWhatItDoesNotKeep) {
  Cache cache;
  const Cache::Mapping large{0x100000, Cache::kMappingBytesMax + 4096};
  EXPECT_EQ(cache.put(large).low, large.low);
  for (std::uintptr_t i = 1; i <= 8; ++i) EXPECT_FALSE(cache.put({i << 16, 4096}));
  EXPECT_EQ(cache.put({9 << 16, 4096}).low, 1u << 16) << "the oldest goes";
  EXPECT_EQ(cache.take_oldest().low, 2u << 16);
}

// Whatever is put in is out again exactly once: taken, handed back, or the oldest at the end.
TEST(MapCache, NeverLosesOrDoublesAMapping) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  Cache cache;
  std::map<std::uintptr_t, std::size_t> inside;
  const auto out = [&](Cache::Mapping m) {
    if (!m) return;
    const auto found = inside.find(m.low);
    ASSERT_NE(found, inside.end());
    EXPECT_EQ(found->second, m.bytes);
    inside.erase(found);
  };
  std::uintptr_t next = 0x10000;
  for (int i = 0; i < 20000; ++i) {
    const std::size_t bytes = (random() % 40 + 1) * 16384;
    if (random() % 2) {
      inside[next] = bytes;
      out(cache.put({next, bytes}));
      next += bytes;
    } else {
      out(cache.take(bytes));
    }
    std::size_t sum = 0;
    for (const auto& [low, size] : inside) sum += size;
    ASSERT_EQ(sum, cache.kept_bytes());
  }
  while (cache.kept_bytes()) out(cache.take_oldest());
  EXPECT_TRUE(inside.empty());
}

}  // namespace
}  // namespace mortise
