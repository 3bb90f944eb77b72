// If this fails, programs pay for looking up callers where nothing is won by it, or sizes of which groups lie mixed are never told
// apart again.
#include "affinity/observe/class_use.hpp"

#include <gtest/gtest.h>

namespace mortise::affinity {
namespace {

constexpr Growth kNothing{};

TEST(ClassUse, PaysWhileObjectsOfSeveralGroupsStay) {
  EXPECT_FALSE((Growth{.handed = 256, .handed_to_leader = 5, .all = 31, .most = 5, .leader = 1}.pays(kNothing)))
      << "less than 128 KiB: it all fits in a cache";
  EXPECT_TRUE((Growth{.handed = 256, .handed_to_leader = 5, .all = 32, .most = 5, .leader = 1}.pays(kNothing)));
  EXPECT_TRUE((Growth{.handed = 255, .handed_to_leader = 5, .all = 31, .most = 5, .leader = 1}.pays(kNothing))) << "too early to tell";
  EXPECT_TRUE((Growth{.handed = 800, .handed_to_leader = 90, .all = 100, .most = 50, .leader = 1}.pays(kNothing)));
  EXPECT_FALSE((Growth{.handed = 808, .handed_to_leader = 90, .all = 100, .most = 50, .leader = 1}.pays(kNothing)))
      << "more than seven eighths were released";
}

TEST(ClassUse, GroupThatHasAllOfTheMemoryIsLeftAloneOnlyWhereNobodyElseAsks) {
  EXPECT_FALSE((Growth{.handed = 640, .handed_to_leader = 600, .all = 640, .most = 630, .leader = 1}.pays(kNothing)));
  EXPECT_FALSE((Growth{.handed = 64, .handed_to_leader = 64, .all = 32, .most = 32, .leader = 1}.pays(kNothing))) << "it shows early";
  EXPECT_TRUE((Growth{.handed = 64, .handed_to_leader = 64, .all = 31, .most = 31, .leader = 1}.pays(kNothing)));
  EXPECT_TRUE((Growth{.handed = 640, .handed_to_leader = 640, .all = 640, .most = 629, .leader = 1}.pays(kNothing)))
      << "others' objects would lie among its own";
  EXPECT_TRUE((Growth{.handed = 640, .handed_to_leader = 599, .all = 640, .most = 640, .leader = 1}.pays(kNothing)))
      << "the holes of others' would be filled with its own";
}

TEST(ClassUse, IsAskedWhatStayedSinceTheLastLookAndWhoClosedIt) {
  ClassUse use{};
  const Growth built{.handed = 1000, .handed_to_leader = 500, .all = 1000, .most = 500, .leader = 7};
  ASSERT_TRUE(use.stays_open(built));
  const Growth searched{.handed = 2000, .handed_to_leader = 1000, .all = 1060, .most = 500, .leader = 7};
  EXPECT_TRUE(searched.pays(kNothing)) << "half of all stayed";
  EXPECT_FALSE(use.stays_open(searched)) << "of what came last, 60 in 1000";
  EXPECT_TRUE(use.is_closed);
  EXPECT_EQ(use.leader, kNoNode) << "whoever comes and stays opens it";
  ClassUse other{};
  EXPECT_FALSE(other.stays_open({.handed = 1000, .handed_to_leader = 1000, .all = 1000, .most = 1000, .leader = 7}));
  EXPECT_EQ(other.leader, 7u) << "whoever but that one";
  ClassUse early{};
  ASSERT_TRUE(early.stays_open({.handed = 64, .handed_to_leader = 64, .all = 31, .most = 31, .leader = 7}));
  EXPECT_FALSE(early.stays_open({.handed = 128, .handed_to_leader = 128, .all = 33, .most = 33, .leader = 7}));
  EXPECT_EQ(early.leader, 7u) << "little as it took of late";
}

TEST(ClassUse, GroupPassesWhoseObjectsTookNoMore) {
  constexpr std::size_t kStride = 64;
  constexpr auto passes = [](std::uint64_t segments, std::uint32_t grown, unsigned trials, std::uint32_t had = 0) {
    return ClassUse::comes_and_goes(segments * 4096 / kStride, grown, had, kStride, trials);
  };
  EXPECT_FALSE(passes(3, 1, 0)) << "nobody knows yet";
  EXPECT_TRUE(passes(4, 1, 0));
  EXPECT_FALSE(passes(4, 2, 0)) << "half of them stayed";
  EXPECT_TRUE(passes(8, 2, 0));
  EXPECT_FALSE(passes(8, 3, 0));
  EXPECT_TRUE(passes(1000, 31, 0));
  EXPECT_FALSE(passes(1000, 32, 0)) << "what stayed is worth its own pool, however much came and went";
  EXPECT_FALSE(passes(15, 1, 1)) << "it was found wanting before: it has to show more";
  EXPECT_TRUE(passes(16, 1, 1));
  EXPECT_FALSE(passes(43, 1, 0, 20)) << "it may lie where its objects lay before the class was closed, and then where those lay";
  EXPECT_TRUE(passes(44, 1, 0, 20));
  EXPECT_FALSE(passes(44, 2, 0, 20)) << "half of what did not find room there stayed";
  EXPECT_GE(ClassUse::segments_of(ClassUse::lease_of_trial(16), 16), ClassUse::kSegmentsOfTrial);
  EXPECT_GE(ClassUse::segments_of(ClassUse::lease_of_trial(1008), 1008), ClassUse::kSegmentsOfTrial);
}

TEST(ClassUse, PoolOfWhatPassesIsLeftWhenWhatItIsAskedForStays) {
  constexpr std::size_t kStride = 64;
  ClassUse use{};
  const auto asked = [&](std::uint32_t segments, std::uint32_t grown) {
    use.undivided += grown;
    return use.rest_stays(segments * 64, kStride);
  };
  for (int i = 0; i < 100; ++i) ASSERT_FALSE(asked(256, 31)) << "less than an eighth";
  EXPECT_FALSE(asked(256, 31));
  EXPECT_TRUE(asked(256, 32));
  EXPECT_FALSE(asked(64, 20)) << "not much yet";
  EXPECT_FALSE(asked(64, 1)) << "and it stopped";
  EXPECT_FALSE(asked(64, 20));
  EXPECT_TRUE(asked(64, 20));
}

TEST(ClassUse, WhatAGroupTookFromThePoolOfTheClassIsForgottenWhenItLeaves) {
  ClassUse use{.objects = 5122, .undivided_objects = 4609, .next_look = 8192, .undivided = 37, .rest_seen = 37};
  use.forget_rest(513);
  EXPECT_EQ(use.objects, 0u);
  EXPECT_EQ(use.undivided, 0u) << "or the group would never have all of the memory";
  EXPECT_FALSE(use.rest_stays(64, 64)) << "nor what it took be compared with what it had taken";
  EXPECT_EQ(use.next_look, 8192u);
  use.forget_rest(4096);
  EXPECT_EQ(use.objects, 0u) << "a lease that was told late is more than all: the next look would never be behind";
}

TEST(ClassUse, SpansAreNewOnce) {
  SpansMet spans{};
  EXPECT_TRUE(spans.is_new(0x7f0000010000));
  EXPECT_FALSE(spans.is_new(0x7f000001fff0));
  EXPECT_TRUE(spans.is_new(0x7f0000020000));
  EXPECT_FALSE(spans.is_new(0x7f0000010010));
}

TEST(ClassUse, IsLookedAtWheneverTheObjectsHaveDoubled) {
  for (const std::size_t stride : {16, 48, 128}) {
    ClassUse use{};
    std::uint64_t leased = 0, first = 0;
    unsigned looks = 0;
    while (use.objects * stride < 400_MiB) {
      use.objects += use.lease();
      ++leased;
      if (!use.is_due(stride)) continue;
      ++looks;
      if (!first) first = use.objects;
    }
    EXPECT_EQ(looks, stride == 128 ? 10u : 11u) << "256 KiB to 256 MiB of objects; of the largest the first lease is twice that";
    EXPECT_LE(first * stride, 2 * ClassUse::kFirstLookBytes) << "no more than a lease behind";
    EXPECT_LT(leased, 100u) << "leases grow with the objects";
  }
}

TEST(ClassUse, LeaseEndsWhereTheNextLookIs) {
  ClassUse use{.objects = 8000};
  ASSERT_FALSE(use.is_due(32)) << "256 KiB are 8192";
  EXPECT_EQ(use.lease(), 192u);
  ClassUse mixed{.objects = 1u << 24};
  EXPECT_EQ(mixed.lease(), ClassUse::kLeaseMax) << "one at which nobody looks";
}

TEST(ClassUse, OpensForOthersAndLaterOnlyForMoreOfThem) {
  ClassUse use{};
  for (std::uint32_t needed = 4; needed <= 64; needed *= 2) {
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
