// Nodes that get no pool of their own, since there are too many or no memory. If these failed, objects of other sizes would come from a
// pool that is too small for them, or malloc would never come back.
#include "affinity/observe/observer.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <memory>

namespace mortise::affinity {
namespace {

class ObserverTest : public testing::Test {
 protected:
  static constexpr unsigned kBeforePool = 40;
  static constexpr std::size_t kBytes = 24;

  ObserverTest() { observer_->configure({.mode = Mode::chain, .objects_before_pool = kBeforePool}); }

  /// So many objects are asked for by the n-th of callers that no module has.
  CallChoice ask(unsigned n, unsigned objects, std::size_t bytes = kBytes) {
    CallChoice choice;
    while (objects--) {
      choice = {};
      observer_->choose({.address = 0x10000 + 16 * std::uintptr_t{n}, .frame = {}, .stack_end = 0, .callee_saved = nullptr}, bytes, choice);
    }
    return choice;
  }

  std::unique_ptr<Observer> observer_ = std::make_unique<Observer>();
};

TEST_F(ObserverTest, TheLastNodeSharesThePoolOfItsSizeWhichGivesWayToNobody) {
  CallChoice last;
  for (unsigned n = 0; n + 1 < kNodesMax; ++n) {
    last = ask(n, kBeforePool + 1);
    ASSERT_TRUE(last.pool) << n;
  }
  EXPECT_EQ(last.pool->tag, kNoNode) << "not its own: there are as many as there may be";
  observer_->fold_back(last.tag);
  observer_->unite(1, last.tag, Why::type_two);
  EXPECT_EQ(last.pool->successor.load(Order::relaxed), nullptr);
}

TEST_F(ObserverTest, WhoGetsNoPoolForWantOfMemoryIsServedFromBelowWhateverIsUnited) {
  constexpr unsigned kMany = 6000;  // more pools than a chunk of memory holds
  for (unsigned n = 0; n < kMany; ++n) ask(n, kBeforePool - 1);
  rlimit before;
  getrlimit(RLIMIT_AS, &before);
  const rlimit none{.rlim_cur = 4096, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_AS, &none);
  const CallChoice first = ask(0, 2);
  CallChoice last;
  for (unsigned n = 1; n < kMany && (!last.pool || !last.pool->is_forwarding); ++n) last = ask(n, 2);
  setrlimit(RLIMIT_AS, &before);
  ASSERT_TRUE(first.pool && !first.pool->is_forwarding);
  ASSERT_TRUE(last.pool && last.pool->is_forwarding) << "memory lasted";
  observer_->unite(first.tag, last.tag, Why::type_two);
  EXPECT_EQ(last.pool->today(), last.pool) << "others' objects, of any size, are served by it as well";
}

/// Two groups of one size that have pools of their own, and threads whose leases end when they like.
class LeasesTest : public ObserverTest {
 protected:
  static constexpr std::size_t kStride = 32;

  LeasesTest() {
    observer_->configure({.mode = Mode::graph, .objects_before_pool = kBeforePool});
    for (const unsigned n : {1, 2}) observer_->divide_from_size_class(ask(n, kBeforePool + 1).tag);
    a_ = ask(1, 1).pool, b_ = ask(2, 1).pool;
  }
  bool passed(unsigned n) {
    return observer_->passed({.address = 0x10000 + 16 * std::uintptr_t{n}, .frame = {}, .stack_end = 0, .callee_saved = nullptr}, kBytes);
  }
  unsigned samples_until_open(unsigned n) {
    unsigned samples = 1;
    while (!passed(n) && samples < 1000) ++samples;
    return samples;
  }
  /// The pool is asked for one lease more after the other, of which everything stays, until its class is closed.
  void grow_until_closed(Pool& pool) {
    for (std::uint32_t lease = observer_->renew(pool, 0); lease;) {
      observer_->grew(pool, static_cast<std::uint32_t>(lease * kStride / 4096 + 1), nullptr);
      lease = observer_->renew(pool, lease);
    }
  }

  Pool *a_, *b_;
};

TEST_F(LeasesTest, LeaseThatEndsAfterTheClassWasClosedIsNotCounted) {
  const std::uint32_t trial = observer_->renew(*b_, 0);
  observer_->grew(*b_, 3, nullptr);
  const std::uint32_t lease = observer_->renew(*b_, trial);
  grow_until_closed(*a_);
  EXPECT_EQ(observer_->renew(*b_, lease), 0u) << "closed by the other";
  EXPECT_EQ(observer_->renew(*b_, 30000), 0u);
  EXPECT_EQ(b_->successor.load(Order::relaxed), nullptr) << "what it was asked for before says nothing of what comes and goes";
  EXPECT_EQ(samples_until_open(2), 4u) << "it was closed once";
  Pool& pool = *ask(2, 1).pool;
  std::uint32_t next = observer_->renew(pool, 0);
  for (int i = 0; i < 40 && next; ++i) {  // or malloc would never come back
    observer_->grew(pool, static_cast<std::uint32_t>(next * kStride / 4096 + 1), nullptr);
    next = observer_->renew(pool, next);
  }
}

TEST_F(LeasesTest, ThreadThatShutsTheGateLateDoesNotShutItForGood) {
  EXPECT_FALSE(passed(2)) << "nobody has closed it";
  grow_until_closed(*a_);
  EXPECT_EQ(samples_until_open(2), 4u);
  EXPECT_TRUE(passed(2)) << "samples come of closed classes: somebody holds it for one that is open";
}

TEST_F(LeasesTest, UnitedGroupsGrewLastWhenEitherDid) {
  observer_->grew(*a_, 1, nullptr);
  observer_->grew(*b_, 1, nullptr);
  observer_->unite(a_->tag, b_->tag, Why::type_two);
  EXPECT_EQ(observer_->view(a_->tag).grew_at, 2u);
  EXPECT_EQ(observer_->view(a_->tag).looked_into_at, 1u);
}

TEST_F(LeasesTest, GroupsOfTwoSizesThatShareAPoolGrewLastWhenEitherDid) {
  observer_->configure({.mode = Mode::graph, .objects_before_pool = kBeforePool, .mixing = Mixing::parts});
  observer_->divide_from_size_class(ask(3, kBeforePool + 1, 2 * kBytes).tag);
  const Pool& part = *ask(3, 1, 2 * kBytes).pool;
  observer_->grew(*a_, 1, nullptr);
  observer_->grew(part, 1, nullptr);
  observer_->unite(a_->tag, part.tag, Why::part);
  ASSERT_NE(observer_->view(a_->tag).pool, a_->id);
  EXPECT_EQ(observer_->view(a_->tag).grew_at, 2u) << "else what it made last seems to have been there before";
}

TEST_F(LeasesTest, GroupThatTookNothingBeginsWhereTheOneUnitedWithItDid) {
  observer_->grew(*b_, 2, nullptr);
  observer_->unite(a_->tag, b_->tag, Why::type_two);
  observer_->grew(*a_, 1, nullptr);
  EXPECT_EQ(observer_->view(a_->tag).looked_into_at, 2u) << "else all that it leads to seems to have been made since";
}

TEST_F(ObserverTest, GroupThatPassesTimeAndAgainIsLookedAtAllTheSame) {
  observer_->configure({.mode = Mode::graph, .objects_before_pool = 33});
  const auto churn = [&](unsigned objects) {  // each at the place of the one before
    while (objects--) {
      CallChoice c;
      const CallSite site{.address = 0x10010, .frame = {}, .stack_end = 0, .callee_saved = nullptr};
      observer_->choose(site, kBytes, c);
      if (!c.pool) observer_->gave(site, c, reinterpret_cast<void*>(0x70000040), kBytes);
    }
  };
  const auto lease_of = [&](Pool& pool, unsigned segments, std::uint32_t& lease) {
    observer_->grew(pool, segments, nullptr);
    return lease = observer_->renew(pool, lease);
  };
  churn(40);
  bool is_closed = false;
  unsigned rounds = 0;
  for (; !is_closed && rounds < 100; ++rounds) {
    Pool& shared = *ask(1, 1).pool;
    std::uint32_t lease = observer_->renew(shared, 0);
    while (lease > 1) is_closed = !lease_of(shared, static_cast<unsigned>(lease * 32 / 4096 + 1), lease);  // it stays
    if (is_closed) break;
    churn(17);
    observer_->divide_from_size_class(ask(1, 1).tag);
    Pool& own = *ask(1, 1).pool;
    lease = observer_->renew(own, 0);
    observer_->grew(own, 1, nullptr);
    while (!is_closed && !own.successor.load(Order::relaxed)) is_closed = !lease_of(own, 0, lease);  // and comes and goes again
  }
  EXPECT_TRUE(is_closed) << "one group has it all, after however many rounds";
}

}  // namespace
}  // namespace mortise::affinity
