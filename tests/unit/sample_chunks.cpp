// If this failed, two sampled blocks would lie in one place, or the room of samples would never come back.
#include "mortise/watch/sample_chunks.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "mortise/allocators/hslab.hpp"
#include "mortise/os/facts.hpp"

namespace mortise::test {
namespace {

using Chunks = SampleChunks<Hslab>;

TEST(SampleChunks, PlacesNeverOverlapAndAllGoBack) {
  auto below = std::make_unique<Hslab>();
  ASSERT_TRUE(start_below(*below, os::read_facts(nullptr)));
  Hslab::Thread t;
  Chunks chunks;
  struct Held {
    std::size_t bytes;
    Chunks::Chunk* chunk;
  };
  std::map<std::byte*, Held> held;
  std::mt19937_64 random(3);
  std::size_t held_bytes = 0;
  for (int i = 0; i < 20'000; ++i) {
    if (held.empty() || random() % 5 < 3) {
      const std::size_t bytes = random() % 3 ? random() % 300 : random() % Hslab::Classes::kMaxBytes;
      const std::size_t align = std::size_t{16} << random() % 13;
      const auto place = chunks.take(*below, t, bytes, align);
      ASSERT_NE(place.ptr, nullptr);
      ASSERT_TRUE(is_aligned(place.ptr, align));
      const auto next = held.lower_bound(place.ptr);
      ASSERT_TRUE(next == held.end() || place.ptr + bytes <= next->first);
      ASSERT_TRUE(next == held.begin() || std::prev(next)->first + std::prev(next)->second.bytes <= place.ptr);
      ASSERT_EQ(below->block_of(place.ptr).size_class, kNoClass) << "a free of it would not be seen";
      held[place.ptr] = {bytes, place.chunk};
      held_bytes += bytes;
    } else {
      auto gone = held.lower_bound(std::next(held.begin(), static_cast<long>(random() % held.size()))->first);
      chunks.give(*below, t, gone->second.chunk, gone->first, gone->second.bytes);
      held_bytes -= gone->second.bytes;
      held.erase(gone);
    }
    ASSERT_GE(chunks.bytes(), held_bytes);
  }
  EXPECT_LE(chunks.bytes(), 2 * held_bytes + 4 * Chunks::kChunkBytes);
  for (const auto& [p, h] : held) chunks.give(*below, t, h.chunk, p, h.bytes);
  EXPECT_EQ(chunks.count(), 0u);
  Usage u;
  below->tell(u);
  EXPECT_EQ(u.live, 0u);
}

TEST(SampleChunks, PagesOfFreeRoomGoBackOnce) {
  auto below = std::make_unique<Hslab>();
  ASSERT_TRUE(start_below(*below, os::read_facts(nullptr)));
  Hslab::Thread t;
  Chunks chunks;
  constexpr std::size_t kBytes = 40'000;
  std::vector<Chunks::Place> places;
  std::size_t freed = 0;
  for (int i = 0; i < 200; ++i) {
    places.push_back(chunks.take(*below, t, kBytes, 16));
    std::memset(places.back().ptr, 7, kBytes);
  }
  chunks.purge(*below);
  for (std::size_t i = 0; freed + 2 * kBytes < Chunks::kFreedMax; i += 3, freed += 2 * kBytes)
    for (std::size_t k = i; k < i + 2; ++k) chunks.give(*below, t, places[k].chunk, places[k].ptr, kBytes);
  const std::size_t given = chunks.purge(*below);
  EXPECT_GE(given, freed / 10 * 8) << "all but the pages at their ends";
  EXPECT_LE(given, freed + chunks.count() * kBytes) << "an end of a chunk that never held a block may be given as well";
  EXPECT_EQ(chunks.purge(*below), 0u);
  for (std::size_t i = 2; i < places.size(); i += 3)
    for (std::size_t k = 0; k < kBytes; ++k) ASSERT_EQ(places[i].ptr[k], std::byte{7}) << "a block that lives lost a page";
}

}  // namespace
}  // namespace mortise::test
