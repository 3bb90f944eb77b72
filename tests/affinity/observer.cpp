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
  CallChoice ask(unsigned n, unsigned objects) {
    CallChoice choice;
    while (objects--) {
      choice = {};
      observer_->choose({.address = 0x10000 + 16 * std::uintptr_t{n}, .frame = {}, .stack_end = 0, .callee_saved = nullptr}, kBytes, choice);
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

}  // namespace
}  // namespace mortise::affinity
