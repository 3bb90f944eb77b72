// Where early objects lie. If this failed, edges would be drawn to objects that are long gone, or to none.
#include "affinity/observe/nodes.hpp"

#include <gtest/gtest.h>

#include <random>
#include <unordered_map>

namespace mortise::affinity {
namespace {

struct Noted {
  NodeId node;
  std::uint32_t offset;
};

TEST(EarlyObjects, TheLastObjectAtEachPlaceIsFoundOrNone) {
  std::mt19937 random(7);
  EarlyObjects early;
  std::unordered_map<std::uintptr_t, Noted> model;  // by granule
  EXPECT_EQ(early.find(0x7f0000001000).node, kNoNode) << "before the first";
  for (unsigned n = 0; n < 6000; ++n) {
    const std::uintptr_t object = 0x7f0000000000 + random() % 20000 * kMinAlign;
    const std::size_t bytes = 1 + random() % 64;
    const NodeId node = 1 + random() % (kNodesMax - 1);
    early.note(object, bytes, node);
    for (std::uint32_t i = 0; i * kMinAlign < bytes; ++i) model[object / kMinAlign + i] = {node, i};
    if (n % 50) continue;
    unsigned found = 0;
    for (const auto& [granule, noted] : model) {
      const auto place = early.find(granule * kMinAlign + random() % kMinAlign);
      if (place.node == kNoNode) continue;
      ++found;
      ASSERT_EQ(place.node, noted.node);
      ASSERT_EQ(place.offset, noted.offset);
    }
    ASSERT_GE(found * 20, model.size() * 19) << "few are forgotten while there is room";
    ASSERT_EQ(early.find(0x7f0000000000 - kMinAlign * (1 + random() % 1000)).node, kNoNode);
    if (model.size() > 8000) break;
  }
}

TEST(EarlyObjects, MoreThanThereIsRoomForForgetsSome) {
  EarlyObjects early;
  for (std::uintptr_t n = 0; n < 100000; ++n) early.note(0x10000 + n * kMinAlign, kMinAlign, 1 + static_cast<NodeId>(n % 1000));
  unsigned found = 0;
  for (std::uintptr_t n = 0; n < 100000; ++n) {
    const auto place = early.find(0x10000 + n * kMinAlign);
    if (place.node == kNoNode) continue;
    ++found;
    ASSERT_EQ(place.node, 1 + n % 1000);
  }
  EXPECT_GE(found, 8000u);
  EXPECT_LE(found, 16384u);
}

TEST(EarlyObjects, TheLargestObjectIsFoundAtItsEnd) {
  EarlyObjects early;
  early.note(0x20000, 1024, kNodesMax - 1);
  const auto last = early.find(0x20000 + 1023);
  EXPECT_EQ(last.node, kNodesMax - 1);
  EXPECT_EQ(last.offset, 63u);
  EXPECT_EQ(early.find(0x20000 + 1024).node, kNoNode);
}

}  // namespace
}  // namespace mortise::affinity
