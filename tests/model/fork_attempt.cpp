// If this fails, a fork that gives up leaves a lock held or opens one of another thread, is not alone with what it has, or waits for a
// thread that goes on only when the fork lets go: its attempt runs in every interleaving that matters, over two locks in order as a stack
// has them, behind the lock of the gate.
#include "mortise/sync/fork_attempt.hpp"

#include <gtest/gtest.h>

#include "mortise/sync/flat_combining_lock.hpp"
#include "mortise/sync/futex_lock.hpp"
#include "running.hpp"

namespace mortise::model {
namespace {

using GivesUpAtOnce = FlatCombiningLock<0, 1, 0, 0, 1>;

template <class Lock>
struct TwoLayers {
  FutexLock gate;
  Lock lock[2];
  Shared<unsigned> uses[2];

  TwoLayers() { ForkAttempt(0); }  // its state is the program's: an execution that was left half-way has one under way
  void use(unsigned i) { uses[i].set(uses[i].get() + 1); }
  void lock_all() {
    for (unsigned i = 0; i < 2; ++i)
      if (hold(lock[i])) use(i);
  }
  void unlock_all() {
    for (unsigned i = 2; i-- > 0;) let_go(lock[i]);
  }
  /// As ForkGate does.
  bool forks(unsigned naps) {
    const bool has_all = ForkAttempt::take_all(
        gate, naps, [this] { lock_all(); }, [this] { unlock_all(); });
    if (has_all) {
      use(0), use(1);
      unlock_all();
      gate.unlock();
    }
    return has_all;
  }
  /// What any other thread does to one of them, and outside of an attempt hold() does as well.
  void miss(unsigned i) {
    require(hold(lock[i]), "a thread that makes no attempt has given up");
    use(i);
    let_go(lock[i]);
  }
  void finish() {
    for (Lock& l : lock) require(l.lock_within(0), "a lock stays held");
    require(gate.lock_within(0), "the gate stays held");
  }
};

/// Two attempts against a miss of each layer.
template <class Lock>
struct AgainstMisses : TwoLayers<Lock> {
  static constexpr unsigned kThreads = 2;
  void run(unsigned thread) {
    for (unsigned i = 0; i < 2; ++i) {
      if (thread == 0) this->forks(0);
      else this->miss(1 - i);
    }
  }
};
/// An attempt against two threads, each at one layer.
template <class Lock>
struct AgainstTwoThreads : TwoLayers<Lock> {
  static constexpr unsigned kThreads = 3;
  void run(unsigned thread) {
    if (thread == 0) this->forks(0);
    else this->miss(thread - 1);
  }
};
/// Two threads fork, a third one has a miss below; whoever has given up has one as well: nobody may have opened the lock meanwhile.
template <class Lock>
struct TwoFork : TwoLayers<Lock> {
  static constexpr unsigned kThreads = 3;
  void run(unsigned thread) {
    if (thread == 2 || !this->forks(0)) this->miss(1);
  }
};
/// A signal has stopped the holder of the lower lock, which goes on when one has come to the thread that forks: between attempts.
template <class Lock>
struct AgainstAStoppedHolder : TwoLayers<Lock> {
  static constexpr unsigned kThreads = 2;
  Atomic<unsigned> has_stopped, goes_on;
  void run(unsigned thread) {
    if (thread == 0) {
      const bool has_forked = this->forks(1);
      has_stopped.store(1, Order::release);
      if (has_forked) return;
      while (!goes_on.load(Order::acquire)) cpu_relax();
      return require(this->forks(1), "an attempt has failed though nobody has a lock");
    }
    this->lock[1].lock();
    while (!has_stopped.load(Order::acquire)) cpu_relax();
    this->use(1);
    this->lock[1].unlock();
    goes_on.store(1, Order::release);
  }
};
/// Whether it gives up while nobody else takes a step: the explorer spins less than that lock does.
template <class Lock>
constexpr bool kGivesUp = true;
template <>
constexpr bool kGivesUp<FutexLock> = FutexLock::kSpins == 0;

template <class Lock>
class ForkAttempts : public testing::Test {};
using Timed = testing::Types<FutexLock, GivesUpAtOnce>;
TYPED_TEST_SUITE(ForkAttempts, Timed);

template <template <class> class Scenario, class Lock>
void run_with(const char* what) { run<Scenario<Lock>>(std::string(Lock::kName) + ", " + what); }

TYPED_TEST(ForkAttempts, AgainstMisses) { run_with<AgainstMisses, TypeParam>("two attempts against a miss of each layer"); }
TYPED_TEST(ForkAttempts, AgainstTwoThreads) { run_with<AgainstTwoThreads, TypeParam>("an attempt against two threads"); }
TYPED_TEST(ForkAttempts, TwoFork) { run_with<TwoFork, TypeParam>("two threads fork, a third has a miss, and who gives up"); }
TYPED_TEST(ForkAttempts, AgainstAStoppedHolder) {
  if constexpr (kGivesUp<TypeParam>) run_with<AgainstAStoppedHolder, TypeParam>("the holder is stopped until the fork lets go");
}

}  // namespace
}  // namespace mortise::model
