// If this failed, the profile would lose blocks, or charge them to another place than the one that asked for them.
#include "mortise/watch/heap_profile.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>

namespace mortise::test {
namespace {

/// Blocks that are added, changed and removed at random, beside a map that does the same.
TEST(HeapProfile, KnowsWhatIsLiveAndWhoAskedForIt) {
  auto profile = std::make_unique<HeapProfile>();
  struct Known {
    std::size_t bytes;
    std::uintptr_t place;
  };
  std::map<std::uintptr_t, Known> model;
  std::mt19937_64 random(7);
  for (int i = 0; i < 200'000; ++i) {
    const std::uintptr_t at = (1 + random() % 40'000) * 64;
    auto* const block = reinterpret_cast<std::byte*>(at);
    const auto known = model.find(at);
    if (known == model.end()) {
      const std::uintptr_t place = 1 + random() % 300;
      const std::uintptr_t address[3] = {place, 2 * place, 7};
      const std::size_t bytes = random() % 1000;
      ASSERT_TRUE(profile->add({.block = block, .bytes = bytes, .place = &model, .place_bytes = 99}, address, 3));
      model[at] = {bytes, place};
    } else if (random() % 4 == 0) {
      const std::uintptr_t other = (50'000 + at / 64) * 64;
      const std::size_t bytes = random() % 1000;
      ASSERT_TRUE(profile->change(block, reinterpret_cast<std::byte*>(other), bytes));
      ASSERT_TRUE(profile->change(reinterpret_cast<std::byte*>(other), block, bytes));
      known->second.bytes = bytes;
    } else {
      const HeapProfile::Live l = profile->remove(block);
      ASSERT_EQ(l.block, block);
      ASSERT_EQ(l.bytes, known->second.bytes);
      ASSERT_EQ(l.place, &model);
      ASSERT_EQ(l.place_bytes, 99u);
      ASSERT_EQ(profile->remove(block).block, nullptr);
      model.erase(known);
    }
  }
  std::map<std::uintptr_t, std::pair<std::size_t, std::size_t>> expected, found;
  for (const auto& [at, known] : model) {
    expected[known.place].first += 1;
    expected[known.place].second += known.bytes;
    ASSERT_NE(profile->look_up(reinterpret_cast<const std::byte*>(at)), nullptr);
  }
  profile->each([&](const HeapProfile::Stack& s) {
    EXPECT_EQ(s.depth, 3u);
    EXPECT_EQ(s.address[1], 2 * s.address[0]);
    if (s.live_blocks) found[s.address[0]] = {s.live_blocks, s.live_bytes};
  });
  EXPECT_EQ(found, expected);
  EXPECT_EQ(profile->dropped(), 0u);
}

TEST(HeapProfile, StacksBeyondItsRoomAreOne) {
  auto profile = std::make_unique<HeapProfile>();
  constexpr std::uintptr_t kMany = HeapProfile::kStacksMax + 1000;
  for (std::uintptr_t i = 1; i <= kMany; ++i) ASSERT_TRUE(profile->add({.block = reinterpret_cast<std::byte*>(i * 16), .bytes = 1}, &i, 1));
  std::size_t stacks = 0, blocks = 0, of_others = 0;
  profile->each([&](const HeapProfile::Stack& s) {
    ++stacks;
    blocks += s.live_blocks;
    if (s.depth == 0) of_others = s.live_blocks;
  });
  EXPECT_EQ(stacks, HeapProfile::kStacksMax);
  EXPECT_EQ(blocks, kMany);
  EXPECT_EQ(of_others, 1001u);
}

}  // namespace
}  // namespace mortise::test
