// If this fails, a lock lets two threads in, loses one for ever, or does not hand on what its holder wrote: the shipped
// locks are run in every interleaving that matters.
#include <gtest/gtest.h>

#include "mortise/sync/futex_lock.hpp"
#include "mortise/sync/mcs_lock.hpp"
#include "mortise/sync/spin_lock.hpp"
#include "mortise/sync/ticket_lock.hpp"
#include "explorer/explorer.hpp"

namespace mortise::model {
namespace {

template <class Lock, unsigned Threads, unsigned Rounds>
struct Counts {
  static constexpr unsigned kThreads = Threads;
  Lock lock;
  Shared<unsigned> total;
  void run(unsigned) {
    for (unsigned i = 0; i < Rounds; ++i) {
      Held held(lock);
      total.set(total.get() + 1);
    }
  }
  void finish() { require(total.get() == Threads * Rounds, "a thread was not alone"); }
};

template <class Lock>
class Locks : public testing::Test {};
using Shipped = testing::Types<SpinLock, TicketLock, McsLock, FutexLock>;
TYPED_TEST_SUITE(Locks, Shipped);

TYPED_TEST(Locks, TwoThreadsTwice) {
  const Report report = explore<Counts<TypeParam, 2, 2>>();
  EXPECT_TRUE(report.passed()) << report.text();
  std::printf("%s, two threads, twice each: %s", TypeParam::kName, report.text().c_str());
}

TYPED_TEST(Locks, ThreeThreadsOnce) {
  const Report report = explore<Counts<TypeParam, 3, 1>>();
  EXPECT_TRUE(report.passed()) << report.text();
  std::printf("%s, three threads: %s", TypeParam::kName, report.text().c_str());
}

}  // namespace
}  // namespace mortise::model
