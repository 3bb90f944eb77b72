// If this failed, a source would lose the memory between two blocks, give it out twice, or give it out dirty.
#include "mortise/data/hole_list.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace mortise::test {
namespace {

class Holes : public ::testing::Test {
 protected:
  static constexpr std::size_t kPiece = 64, kPieces = 64;
  std::byte* piece(std::size_t i) { return memory + i * kPiece; }
  void put(std::size_t i, std::size_t n = 1) { holes.put(piece(i), n * kPiece); }

  alignas(64) std::byte memory[kPiece * kPieces] = {};
  HoleList holes;
};

TEST_F(Holes, TakesTheFirstThatFitsAndKeepsTheRest) {
  put(0);
  put(10, 4);
  put(20, 2);
  EXPECT_EQ(holes.bytes(), 7 * kPiece);
  EXPECT_EQ(holes.take(2 * kPiece), piece(10)) << "the first is too small, the third is behind";
  EXPECT_EQ(holes.take(2 * kPiece), piece(12)) << "the rest of it";
  EXPECT_EQ(holes.take(2 * kPiece), piece(20));
  EXPECT_EQ(holes.take(2 * kPiece), nullptr);
  EXPECT_EQ(holes.take(kPiece), piece(0));
  EXPECT_EQ(holes.bytes(), 0u);
  EXPECT_EQ(holes.take(1), nullptr);
}

TEST_F(Holes, NeighboursBecomeOneInAnyOrder) {
  put(2);
  put(0);
  put(4);
  put(3);  // joins 2 and 4
  put(1);  // joins 0 and 2
  EXPECT_EQ(holes.take(5 * kPiece), piece(0));
}

TEST_F(Holes, ReadAsZeroAgainWhenTheyDidBefore) {
  for (std::size_t i = 0; i < 8; i += 2) put(i);
  for (std::size_t i = 1; i < 8; i += 2) put(i);
  std::size_t bytes = 0;
  ASSERT_EQ(holes.take_ending_at(piece(8), bytes), piece(0));
  EXPECT_EQ(bytes, 8 * kPiece);
  for (const std::byte b : memory) ASSERT_EQ(b, std::byte{0}) << "the list's own words were left behind";
}

TEST_F(Holes, OnlyTheOneThatEndsThere) {
  put(1, 2);
  put(5);
  std::size_t bytes = 7;
  EXPECT_EQ(holes.take_ending_at(piece(2), bytes), nullptr) << "inside of a hole";
  EXPECT_EQ(holes.take_ending_at(piece(5), bytes), nullptr) << "its start";
  EXPECT_EQ(bytes, 7u);
  EXPECT_EQ(holes.take_ending_at(piece(6), bytes), piece(5));
  EXPECT_EQ(bytes, kPiece);
  EXPECT_EQ(holes.bytes(), 2 * kPiece);
}

TEST_F(Holes, AgreeWithAMapOfPieces) {
  std::vector<bool> is_free(kPieces);
  std::uint32_t dice = 12345;
  for (int round = 0; round < 20'000; ++round) {
    dice = dice * 1664525u + 1013904223u;
    const std::size_t n = 1 + (dice >> 8) % 4, at = (dice >> 16) % (kPieces - 4);
    if (dice >> 31) {
      bool used = true;
      for (std::size_t i = at; i < at + n; ++i) used = used && !is_free[i];
      if (!used) continue;
      put(at, n);
      for (std::size_t i = at; i < at + n; ++i) is_free[i] = true;
    } else {
      std::size_t first = 0, run = 0;
      while (first + n <= kPieces && run < n) run = is_free[first + run] ? run + 1 : (++first, 0);
      std::byte* const p = holes.take(n * kPiece);
      ASSERT_EQ(p, run == n ? piece(first) : nullptr) << "round " << round;
      for (std::size_t i = 0; p && i < n; ++i) is_free[first + i] = false;
    }
  }
}

}  // namespace
}  // namespace mortise::test
