// If this failed, a limit would give out memory that is not there, or refuse memory that is.
#include "mortise/os/residency.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include "mortise/core/units.hpp"
#include "mortise/os/pages.hpp"

namespace mortise::test {
namespace {

TEST(Residency, CountsWhatWasTouchedBesideHoles) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  constexpr std::size_t kBytes = 64_MiB;
  std::byte* const at = os::map(kBytes + 64_KiB);
  ASSERT_TRUE(at);
  std::byte* const start = reinterpret_cast<std::byte*>(round_up(reinterpret_cast<std::uintptr_t>(at), 64_KiB));
  os::advise_no_huge(start, kBytes);
  EXPECT_EQ(os::resident_bytes(start, kBytes, page, 64_KiB), 0u);
  std::size_t touched = 0;
  for (std::size_t i = 0; i < kBytes; i += 5 * page, ++touched) start[i] = std::byte{1};
  EXPECT_EQ(os::resident_bytes(start, kBytes, page, 64_KiB), touched * page);
  os::purge(start, kBytes);
  for (std::size_t i = 0; i < kBytes; i += 64_KiB) start[i] = std::byte{1};
  for (std::size_t hole : {std::size_t{0}, std::size_t{33}, std::size_t{34}, std::size_t{500}}) os::unmap(start + hole * 64_KiB, 64_KiB);
  EXPECT_EQ(os::resident_bytes(start, kBytes, page, 64_KiB), (kBytes / 64_KiB - 4) * page);
  os::unmap(start, kBytes);
  EXPECT_EQ(os::resident_bytes(start, kBytes, page, 64_KiB), 0u) << "all of it is a hole, and it ends";
}

}  // namespace
}  // namespace mortise::test
