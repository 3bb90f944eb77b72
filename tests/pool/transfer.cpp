// If this fails, a chain of slots does not come out of the shared part as it went in, and blocks are lost or handed
// out twice.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "mortise/pool/transfer.hpp"

namespace mortise::pools {
namespace {

class Chains : public testing::Test {
 protected:
  static constexpr std::uint32_t kSlots = 400;
  static constexpr std::size_t kStride = 48;

  Chains() { transfer_.start(shards_, 2); }
  std::vector<std::byte*> some(unsigned n, std::uint32_t from) const {
    std::vector<std::byte*> blocks;
    for (unsigned i = 0; i < n; ++i) blocks.push_back(slots_.at((from + i * 7) % kSlots));  // 7 and 400 have no divisor
    return blocks;
  }
  std::vector<std::byte*> pop(unsigned where) {
    std::byte* blocks[kChainMax];
    const unsigned n = transfer_.pop(slots_, where, blocks);
    return {blocks, blocks + n};
  }

  alignas(64) std::byte bytes_[kSlots * kStride];
  Node nodes_[kSlots]{};
  Slots slots_{bytes_, nodes_, kStride, kSlots};
  Transfer::Shard shards_[2];
  Transfer transfer_;
};

TEST_F(Chains, ComeBackInOrderWhateverTheirLength) {
  for (unsigned n = 1; n <= kChainMax; ++n) {
    const auto in = some(n, n * 13);
    transfer_.push(slots_, 0, in.data(), n);
    EXPECT_EQ(transfer_.idle(), n);
    EXPECT_EQ(pop(0), in) << n;
    EXPECT_EQ(pop(0).size(), 0u);
    EXPECT_EQ(transfer_.idle(), 0u);
  }
}

TEST_F(Chains, TheirNodesHoldNothingOfWhatTheyHeldBefore) {
  std::mt19937 random(7);
  std::vector<std::vector<std::byte*>> out;
  std::uint32_t next = 0;
  std::vector<std::byte*> free = some(kSlots, 0);
  for (int round = 0; round < 2000; ++round) {
    while (free.size() > kSlots / 4) {
      const unsigned n = 1 + random() % kChainMax;
      if (n > free.size()) break;
      const std::vector<std::byte*> chain(free.end() - n, free.end());
      free.resize(free.size() - n);
      transfer_.push(slots_, next, chain.data(), n);
      out.push_back(chain);
      next ^= 1;
    }
    const unsigned where = random() % 2;
    const auto got = pop(where);
    const auto it = std::find(out.begin(), out.end(), got);
    ASSERT_NE(it, out.end()) << "round " << round;
    out.erase(it);
    free.insert(free.end(), got.begin(), got.end());
    std::shuffle(free.begin(), free.end(), random);
  }
}

/// A chain that a trim put back elsewhere is taken there and given here while shards are read one after the other.
TEST_F(Chains, AreNeverFewerThanNone) {
  const auto in = some(32, 0);
  transfer_.push(slots_, 0, in.data(), 32);
  transfer_.put_back(slots_, 1, transfer_.set_aside(slots_));
  EXPECT_EQ(transfer_.idle(), 32u);
  EXPECT_EQ(pop(1), in);
  EXPECT_EQ(transfer_.idle(), 0u);
  shards_[0].idle.store(0, Order::relaxed);  // as it was when it was read
  EXPECT_EQ(transfer_.idle(), 0u);
}

}  // namespace
}  // namespace mortise::pools
