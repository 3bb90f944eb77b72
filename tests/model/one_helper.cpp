// If this fails, memory stays with a program that sleeps: the thread that gives it back ended although there was work, or two were at work at
// once, or on one stack. The shipped protocol is run with the lock that the work lies under; the kernel is played by the scenario.
#include "mortise/sync/one_helper.hpp"

#include <gtest/gtest.h>

#include "mortise/sync/futex_lock.hpp"
#include "running.hpp"

namespace mortise::model {
namespace {

struct Program {
  OneHelper helper;
  FutexLock lock;
  Shared<int> work{0};
  Shared<int> record{0};                     // of whoever is at work
  Shared<int> stack[OneHelper::kPlaces];
  Shared<int> touched{0};                    // what only a helper touches, while there is one
  Atomic<unsigned> starts[2];                // of the threads that the kernel may make: 1 + the place
  Atomic<unsigned> are_no_more{0};
  unsigned made = 0, refusals = 0;           // of the thread of the program

  Program() {
    helper.word(0).store(1, Order::relaxed);
    helper.claim();
    helper.arrive();
  }

  // The program's thread.
  void put_work(unsigned threads) {
    {
      Held held(lock);
      work = work + 1;
    }
    if (helper.is_at_work()) return;
    start(threads);
  }
  void start(unsigned threads) {
    if (!helper.claim()) return;
    const unsigned place = helper.free_place();
    if (place == OneHelper::kNoPlace || refusals || made == threads) {
      if (refusals) --refusals;
      return helper.refuse();
    }
    stack[place] = 0;
    helper.word(place).store(2 + made, Order::relaxed);  // the kernel, before clone returns
    starts[made++].store(1 + place, Order::release);
  }

  // A helper.
  bool is_done() {
    Held held(lock);
    touched = 1;
    return work == 0;
  }
  void do_work() {
    record = 1;
    Held held(lock);
    touched = 2;
    work = 0;
  }
  /// Offers its place first, or works first.
  void go_on(unsigned place, bool offers) {
    const auto wait = [] { cpu_relax(); };
    stack[place] = 1;
    if (!offers || !helper.is_relieved([] {}, wait)) {
      do record = record + 1, do_work();
      while (!helper.ends([this] { return is_done(); }, wait));
    }
    leave_place(place);
  }
  void leave_place(unsigned place) {
    stack[place] = 2;
    helper.word(place).store(0, Order::release);  // the kernel, behind the last step
  }
  unsigned wait_for_start(unsigned i) {
    for (;; cpu_relax()) {
      const bool is_last_look = are_no_more.load(Order::acquire);
      if (const unsigned place = starts[i].load(Order::acquire); place || is_last_look) return place;
    }
  }
  void be_started(unsigned i, bool offers) {
    if (const unsigned place = wait_for_start(i)) helper.arrive(), go_on(place - 1, offers);
  }
  void nobody_is_there() {
    require(!helper.is_at_work() && !helper.is_there(), "a helper that has ended is told of");
    require(helper.free_place() == 0, "a place is kept by nobody");
  }
  void finish() {
    require(work == 0, "work is left, and nobody will do it");
    nobody_is_there();
  }
};

/// One is about to end while there is more work.
struct Ends : Program {
  static constexpr unsigned kThreads = 3;
  void run(unsigned thread) {
    if (thread == 1) return put_work(1), are_no_more.store(1, Order::release);
    if (thread == 2) return be_started(0, false);
    record = 1;
    if (helper.ends([this] { return is_done(); }, [] { cpu_relax(); })) leave_place(0);
    else go_on(0, false);
  }
};

/// One offers its place while there is more work.
struct Relieved : Program {
  static constexpr unsigned kThreads = 3;
  void run(unsigned thread) {
    if (thread == 0) return go_on(0, true);
    if (thread == 2) return be_started(0, false);
    put_work(1);
    are_no_more.store(1, Order::release);
  }
};

/// The system refuses a thread, and gives one when it is asked again; which does its work on the thread that asked, to have one fewer.
struct Refused : Program {
  static constexpr unsigned kThreads = 2;
  Refused() { refusals = 1; }
  void run(unsigned thread) {
    if (thread == 0) return go_on(0, true);
    put_work(1);
    if (!helper.is_at_work()) start(1);
    are_no_more.store(1, Order::relaxed);
    be_started(0, false);
  }
};

/// The next one offers its place as well, when the first may not have left its own.
struct RelievedTwice : Program {
  static constexpr unsigned kThreads = 4;
  void run(unsigned thread) {
    if (thread == 0) return offer(0);
    if (thread == 1) {
      for (unsigned i = 0; i < 2; ++i)
        if (!helper.is_at_work()) start(2);
      return are_no_more.store(1, Order::release);
    }
    if (const unsigned place = wait_for_start(thread - 2)) helper.arrive(), offer(place - 1);
  }
  void offer(unsigned place) {
    const auto wait = [] { cpu_relax(); };
    stack[place] = 1, record = 1;
    if (!helper.is_relieved([] {}, wait)) record = 2, helper.ends([] { return true; }, wait);
    leave_place(place);
  }
};

/// A program of one thread asks whether it is alone: then nobody touches what helpers touch.
struct Alone : Program {
  static constexpr unsigned kThreads = 2;
  void run(unsigned thread) {
    if (thread == 0) return go_on(0, true);
    if (!helper.is_there()) touched = 3;
  }
};

TEST(OneHelper, Ends) { run<Ends>("one ends while there is more work"); }
TEST(OneHelper, Relieved) { run<Relieved>("one is relieved while there is more work"); }
TEST(OneHelper, Refused) { run<Refused>("... and the system refuses a thread once"); }
TEST(OneHelper, RelievedTwice) { run<RelievedTwice>("one is relieved, and the next one as well"); }
TEST(OneHelper, Alone) { run<Alone>("a program of one thread asks whether it is alone"); }

TEST(OneHelper, OrdersAreNeeded) {
  EXPECT_EQ((needless_orders<Ends, RelievedTwice, Refused, Alone>("OneHelper")), std::vector<std::string>{});
}

}  // namespace
}  // namespace mortise::model
