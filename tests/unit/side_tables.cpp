// If this failed, two tables of an index would lie over each other, or an index would write to memory that is not there.
#include "mortise/data/side_tables.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "mortise/core/units.hpp"
#include "mortise/os/window.hpp"

namespace mortise::test {
namespace {

TEST(SideTables, LieBehindEachOtherAndEndWithTheRoom) {
  SideTables tables;
  auto* const place = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);  // nothing is mapped, nothing is touched
  tables.place(place, 1_MiB);
  EXPECT_EQ(tables.take(1, 64_KiB), place);
  EXPECT_EQ(tables.take(100'000, 64_KiB), place + 64_KiB);
  EXPECT_EQ(tables.take(900'000, 64_KiB), nullptr) << "beyond the room";
  EXPECT_EQ(tables.take(832_KiB, 64_KiB), place + 192_KiB) << "what was refused took nothing";
  EXPECT_EQ(tables.take(1, 64_KiB), nullptr);
  EXPECT_EQ(tables.mapped_bytes(), 0u);
}

TEST(SideTables, BeginBehindWhatOthersMapped) {
  SideTables tables;
  std::byte* const place = os::find_window();
  ASSERT_TRUE(place);
  tables.place(place, 16_MiB);
  ASSERT_EQ(os::map_at(place, 3_MiB), os::MapAt::done) << "another heap's window reaches to here";
  std::byte* const table = tables.take(1_MiB, 64_KiB);
  EXPECT_EQ(table, place + 4_MiB) << "the next step of windows";
  EXPECT_TRUE(tables.back(table, 1_MiB));
  EXPECT_EQ(tables.take(64_KiB, 64_KiB), place + 5_MiB);
  EXPECT_EQ(tables.take(12_MiB, 64_KiB), nullptr);
  os::unmap(table, 1_MiB);
  os::unmap(place, 3_MiB);
}

TEST(SideTables, ArePutToUsePieceByPiece) {
  SideTables tables;
  std::byte* const place = os::find_window();
  ASSERT_TRUE(place);
  tables.place(place, 1_MiB);
  std::byte* const table = tables.take(512_KiB, 64_KiB);
  ASSERT_TRUE(tables.back(table, 64_KiB));
  ASSERT_TRUE(tables.back(table + 64_KiB, 64_KiB));
  for (std::size_t i = 0; i < 128_KiB; ++i) ASSERT_EQ(table[i], std::byte{0});
  std::memset(table, 0x5a, 128_KiB);
  EXPECT_FALSE(tables.back(table, 64_KiB)) << "what is there already is not mapped over";
  EXPECT_EQ(table[0], std::byte{0x5a});
  EXPECT_EQ(tables.mapped_bytes(), 128_KiB);
  os::unmap(table, 128_KiB);
}

}  // namespace
}  // namespace mortise::test
