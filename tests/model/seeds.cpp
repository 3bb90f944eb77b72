// If this fails, the explorer passes a bug of a kind that lock-free allocators are known for, and its "passed" means
// nothing. Each seed is a small structure with one switch: seeded, the explorer must find it and say what broke;
// unseeded, it must pass.
#include <gtest/gtest.h>

#include <cstdio>

#include "seeds.hpp"

namespace mortise::model {
namespace {

template <template <bool> class Seed>
void find_it(const char* expected, Options options = {}) {
  const Report seeded = explore<Seed<true>>(options);
  EXPECT_TRUE(seeded.found(expected)) << "not found: " << expected << "\n" << seeded.text();
  std::printf("found after %llu executions: %s\n", (unsigned long long)(seeded.executions + seeded.pruned),
              seeded.failure.substr(0, 90).c_str());
  const Report again = explore<Seed<true>>({.replay = seeded.schedule});
  EXPECT_EQ(again.failure, seeded.failure) << "the schedule does not replay";
  const Report twin = explore<Seed<false>>(options);
  EXPECT_TRUE(twin.passed()) << twin.text();
  std::printf("the correct twin: %s", twin.text().c_str());
}

const Options kFrozen{.freeze = true};

TEST(Seeds, DroppedRelease) { find_it<DroppedRelease>("race"); }
TEST(Seeds, DroppedAcquire) { find_it<DroppedAcquire>("race"); }
TEST(Seeds, DroppedAcquireFence) { find_it<DroppedAcquireFence>("race"); }
TEST(Seeds, DroppedStoreLoadFence) { find_it<DroppedStoreLoadFence>("race"); }
TEST(Seeds, WeakenedSequentialConsistency) { find_it<WeakenedSequentialConsistency>("race"); }
TEST(Seeds, PublishBeforeInitialise) { find_it<PublishBeforeInitialise>("race"); }
TEST(Seeds, UseBeforeConstruction) { find_it<UseBeforeConstruction>("before its constructor"); }
TEST(Seeds, AbaOnAStack) { find_it<AbaOnAStack>("handed out twice"); }
TEST(Seeds, TornHead) { find_it<TornHead>("never went in"); }
TEST(Seeds, LostUpdate) { find_it<LostUpdate>("was lost"); }
TEST(Seeds, LostLink) { find_it<LostLink>("is lost"); }
TEST(Seeds, DoubleHandOutOnSteal) { find_it<DoubleHandOutOnSteal>("handed out twice"); }
TEST(Seeds, DroppedHelpingStep) { find_it<DroppedHelpingStep>("waits for ever for a stopped thread", kFrozen); }
TEST(Seeds, WaitLoopOnAStoppedThread) {
  find_it<WaitLoopOnAStoppedThread>("waits for ever for a stopped thread", kFrozen);
}
TEST(Seeds, BoundThatContentionBreaks) { find_it<BoundThatContentionBreaks>("more steps than its bound"); }
TEST(Seeds, StealWithoutRestart) { find_it<StealWithoutRestart>("race"); }
TEST(Seeds, MagazineBackTooEarly) { find_it<MagazineBackTooEarly>("race"); }
TEST(Seeds, Deadlock) { find_it<Deadlock>("waits for ever"); }

}  // namespace
}  // namespace mortise::model
