// Heads of pools whose threads have ended. If this failed, what such a thread made and others released would stay for good, or be handed out
// twice.
#include "mortise/route/pool_heads.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace mortise::test {
namespace {

constexpr unsigned kObjects = 100'000;

class Heads : public testing::Test {
 protected:
  Heads() {
    heads_.start(4096, {});
    pool_.id = 1, pool_.size_class = 4;
  }
  PoolHead& made_by_one_that_has_ended() {
    PoolHead& h = *heads_.adopt(pool_, &pool_);
    for (unsigned i = 0; i < kObjects; ++i) objects_.push_back(heads_.take(h, 64));
    heads_.orphan(h);
    return h;
  }
  std::size_t live() {
    Usage u{};
    heads_.tell(u);
    return u.live;
  }

  PoolHeads<4096> heads_;
  Pool pool_ = {};
  std::vector<std::byte*> objects_;
};

TEST_F(Heads, WhatOthersReleaseOfAThreadThatHasEndedGoesBack) {
  PoolHead& h = made_by_one_that_has_ended();
  ASSERT_EQ(live(), kObjects * 64);
  for (std::byte* p : objects_) h.push_remote(p);
  heads_.purge(0);
  EXPECT_EQ(live(), 0u);
  EXPECT_EQ(heads_.dirty_bytes(), 0u);
  heads_.audit();
}

TEST_F(Heads, WhoNeedsThePoolNextHasTheHeadOnce) {
  PoolHead& h = made_by_one_that_has_ended();
  h.push_remote(objects_[0]);
  heads_.purge(2);
  EXPECT_EQ(heads_.adopt(pool_, &pool_), &h);
  EXPECT_NE(heads_.adopt(pool_, &objects_), &h);
  h.push_remote(objects_[1]);
  heads_.purge(0);
  EXPECT_EQ(live(), (kObjects - 1) * 64) << "a head that a thread has is left to it";
  heads_.take(h, 64);
  EXPECT_EQ(live(), (kObjects - 1) * 64) << "which takes back what waits for it, when it needs an object";
  heads_.audit();
}

}  // namespace
}  // namespace mortise::test
