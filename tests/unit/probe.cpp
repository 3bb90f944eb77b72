// If this failed, an instrument built of probes would tell its user another number than there was.
#include "mortise/policy/probe.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace mortise::test {
namespace {

std::byte place[64];

TEST(Probe, CallsTellsSuccessFromFailure) {
  probe::Calls p;
  p.allocated({.size = 1}, {place, 16});
  p.allocated({.size = 1}, {place, 16});
  p.allocated({.size = SIZE_MAX}, {});
  p.released({place, 16});
  EXPECT_EQ(p.allocations.load(Order::relaxed), 2u);
  EXPECT_EQ(p.failures.load(Order::relaxed), 1u);
  EXPECT_EQ(p.releases.load(Order::relaxed), 1u);
}

TEST(Probe, BytesKeepsThePeak) {
  probe::Bytes p;
  p.allocated({.size = 100}, {place, 112});
  p.allocated({.size = 50}, {place, 64});
  p.released({place, 112});
  p.allocated({.size = 10}, {place, 16});
  EXPECT_EQ(p.live.load(Order::relaxed), 80u);
  EXPECT_EQ(p.peak.load(Order::relaxed), 176u);
  p.allocated({.size = SIZE_MAX}, {});
  EXPECT_EQ(p.live.load(Order::relaxed), 80u) << "what failed holds nothing";
}

TEST(Probe, SizesCountsBetweenPowersOfTwo) {
  probe::Sizes p{};
  for (const std::size_t size : {0, 1, 2, 3, 4, 1023, 1024, 2047}) p.allocated({.size = size}, {place, 64});
  EXPECT_EQ(p.count[0].load(Order::relaxed), 2u);   // nothing and one byte
  EXPECT_EQ(p.count[1].load(Order::relaxed), 2u);   // 2 and 3
  EXPECT_EQ(p.count[2].load(Order::relaxed), 1u);
  EXPECT_EQ(p.count[9].load(Order::relaxed), 1u);   // 512 to 1023
  EXPECT_EQ(p.count[10].load(Order::relaxed), 2u);
}

TEST(Probe, LosesNothingBetweenThreads) {
  probe::Calls calls;
  probe::Bytes bytes;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&] {
      for (int n = 0; n < 20'000; ++n) {
        calls.allocated({.size = 8}, {place, 16});
        bytes.allocated({.size = 8}, {place, 16});
        if (n % 2) bytes.released({place, 16});
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(calls.allocations.load(Order::relaxed), 40'000u);
  EXPECT_EQ(bytes.live.load(Order::relaxed), 20'000u * 16);
  EXPECT_GE(bytes.peak.load(Order::relaxed), bytes.live.load(Order::relaxed));
}

}  // namespace
}  // namespace mortise::test
