// If this fails, programs pay for looking up callers where nothing is won by it, or sizes of which groups lie mixed are never told
// apart again.
#include "affinity/observe/class_use.hpp"

#include <gtest/gtest.h>

namespace mortise::affinity {
namespace {

TEST(ClassUse, PaysWhileSeveralGroupsTakeMemory) {
  EXPECT_FALSE((Growth{.all = 15, .most = 5, .leader = 1}.pays())) << "less than 64 KiB: it all fits in a cache";
  EXPECT_TRUE((Growth{.all = 16, .most = 8, .leader = 1}.pays()));
  EXPECT_TRUE((Growth{.all = 160, .most = 149, .leader = 1}.pays()));
  EXPECT_FALSE((Growth{.all = 160, .most = 150, .leader = 1}.pays())) << "one group has fifteen sixteenths";
}

TEST(ClassUse, IsLookedAtWheneverTheObjectsHaveDoubled) {
  ClassUse use{};
  unsigned looks = 0;
  std::uint64_t leased = 0;
  while (use.objects < std::uint64_t{1} << 24) {
    const std::uint32_t n = use.lease();
    ASSERT_GE(n, ClassUse::kLeaseFirst);
    use.objects += n;
    ++leased;
    looks += use.is_due();
  }
  EXPECT_EQ(looks, 10u) << "2^15 to 2^24";
  EXPECT_LT(leased, 100u) << "leases grow with the objects";
}

TEST(ClassUse, OpensForOthersAndLaterOnlyForMoreOfThem) {
  ClassUse use{};
  for (std::uint32_t needed = 8; needed <= 64; needed *= 2) {
    use.close(3);
    EXPECT_EQ(use.leader, 3u);
    for (int i = 0; i < 100; ++i) ASSERT_FALSE(use.opens(true)) << "its own group's objects are no reason";
    std::uint32_t others = 1;
    while (!use.opens(false)) ++others;
    EXPECT_EQ(others, needed < 15 ? 15 : needed) << "so many, and one in eight of the samples";
    EXPECT_FALSE(use.is_closed);
    EXPECT_EQ(use.objects, 0u) << "and the trial begins anew";
  }
}

TEST(ClassUse, OpensAtTimesWhateverTheSamplesSay) {
  ClassUse use{};
  for (std::uint32_t times : {256u, 512u, 1024u}) {
    use.close(3);
    std::uint32_t samples = 1;
    while (!use.opens(true)) ++samples;
    EXPECT_EQ(samples, times);
  }
}

}  // namespace
}  // namespace mortise::affinity
