// A byte that the Fill slot does not visit is a write after free that nobody sees.
#include "mortise/policy/fill.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <utility>

namespace mortise {
namespace {

TEST(Fill, EveryByteOfEverySizeIsZeroedAndLookedAt) {
  alignas(16) std::byte block[1024 + 16];
  alignas(16) static const std::byte zeros[1024] = {};
  const std::byte* const both[] = {zeros, block};
  for (std::size_t n = 16; n <= 1024; n += 16) {
    std::memset(block, 0x5A, sizeof block);
    fills::Zeroed<>::fill(block, n);
    ASSERT_TRUE(fills::Zeroed<>::is_whole(block, n)) << n;
    ASSERT_TRUE(fills::Zeroed<>::are_whole(both, 2, n)) << n;
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_EQ(block[i], std::byte{0}) << n << ' ' << i;
      block[i] = std::byte{1};
      ASSERT_FALSE(fills::Zeroed<>::is_whole(block, n)) << n << ' ' << i;
      ASSERT_FALSE(fills::Zeroed<>::are_whole(both, 2, n)) << n << ' ' << i;
      block[i] = std::byte{0};
    }
    ASSERT_EQ(block[n], std::byte{0x5A}) << "nothing behind the block is written";
  }
}

/// The start, and nothing else; of large blocks all but a guard's last word.
TEST(Fill, TheStartOfEverySizeIsZeroedAndLookedAt) {
  using Fill = fills::ZeroedStart<512>;
  alignas(16) std::byte block[1024 + 16];
  alignas(16) static const std::byte zeros[1024] = {};
  const std::byte* const both[] = {zeros, block};
  for (std::size_t n = 16; n <= 1024; n += 16) {
    std::memset(block, 0x5A, sizeof block);
    Fill::fill(block, n);
    const auto length_of = [n](unsigned) { return Fill::Length(n); };
    for (std::size_t i = 0; i < n; ++i) {
      const bool is_seen = i < Fill::kStart || (n >= 512 && i < n - Fill::kKept);
      ASSERT_EQ(block[i], is_seen ? std::byte{0} : std::byte{0x5A}) << n << ' ' << i;
      const std::byte was = std::exchange(block[i], std::byte{1});
      ASSERT_EQ(Fill::is_whole(block, n), !is_seen) << n << ' ' << i;
      ASSERT_EQ(Fill::are_whole(both, 2, n), !is_seen) << n << ' ' << i;
      ASSERT_EQ(Fill::are_whole_each<16>(both, 2, length_of, n >= 512), !is_seen) << n << ' ' << i;
      ASSERT_TRUE(n < 32 || Fill::are_whole_each<32>(both, 2, length_of, n >= 512) == !is_seen) << n << ' ' << i;
      block[i] = was;
    }
    ASSERT_TRUE(Fill::is_whole(block, n)) << n;
    ASSERT_EQ(block[n], std::byte{0x5A}) << "nothing behind the block is written";
  }
}

/// Who knows that no block is small zeroes the same bytes.
TEST(Fill, ShortBlocksOfALeastSizeAreZeroedAlike) {
  using Fill = fills::ZeroedStart<512>;
  alignas(16) std::byte known[512 + 16], unknown[512 + 16];
  for (std::size_t n = 32; n < Fill::kLongFrom; n += 16) {
    std::memset(known, 0x5A, sizeof known);
    std::memset(unknown, 0x5A, sizeof unknown);
    Fill::fill_short<32>(known, Fill::Length(n));
    Fill::fill(unknown, n);
    ASSERT_EQ(std::memcmp(known, unknown, sizeof known), 0) << n;
  }
}

}  // namespace
}  // namespace mortise
