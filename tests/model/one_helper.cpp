// If this fails, memory stays with a program that sleeps: the thread that gives it back ended although there was work, or was ended and
// nobody noticed, or two were at work at once, or on one stack. The shipped protocol is run with the lock that the work lies under; the
// kernel is played by the scenario.
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
  Atomic<bool> filter{false};                // ends the helper that makes a call
  Atomic<bool> was_refused{false};           // a thread, just now
  Shared<bool> has_ended{false};             // one of them
  unsigned made = 0, refusals = 0;           // of who has claimed

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
    if (!is_helped()) start(threads);
  }
  bool is_helped() {
    if (!helper.is_at_work()) return false;
    if (!helper.claim_from_ended()) return true;
    record = 3;  // what it was at
    helper.refuse();
    return false;
  }
  void start(unsigned threads) {
    if (!helper.claim()) return;
    const unsigned place = helper.free_place();
    if (place == OneHelper::kNoPlace || refusals || made == threads) {
      if (refusals) --refusals, was_refused.store(true, Order::relaxed);
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
  /// As `go_on`, with a system call before each step of the protocol and each piece of work: it may be the last.
  void go_on_filtered(unsigned place) {
    const auto wait = [] { cpu_relax(); };
    stack[place] = 1;
    for (bool leaves = false; !leaves;) {
      if (is_filtered()) return leave_place(place);
      record = record + 1, do_work();
      if (is_filtered()) return leave_place(place);
      leaves = helper.ends([this] { return is_filtered() || is_done(); }, wait);
    }
    leave_place(place);
  }
  bool is_filtered() {
    if (!filter.load(Order::relaxed)) return false;
    return has_ended = true;
  }
  void leave_place(unsigned place) {
    stack[place] = 2;
    helper.word(place).store(0, Order::release);  // the kernel, behind the last step
  }
  unsigned wait_for_start(unsigned i, unsigned starters = 1) {
    for (;; cpu_relax()) {
      const bool is_last_look = are_no_more.load(Order::acquire) == starters;
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

/// The one that offers its place sees that its successor was refused, and ends with work left: who has work next starts another one.
struct RefusedForGood : Program {
  static constexpr unsigned kThreads = 3;
  RefusedForGood() { refusals = 1; }
  void run(unsigned thread) {
    if (thread == 0) return offer();
    if (thread == 2) return be_started(0, false);
    for (unsigned i = 0; i < 2; ++i)
      if (!helper.is_at_work()) start(1);
    are_no_more.store(1, Order::release);
  }
  void offer() {
    const auto wait = [] { cpu_relax(); };
    stack[0] = 1, record = 1;
    if (helper.is_relieved([] {}, wait)) return leave_place(0);
    if (was_refused.load(Order::relaxed)) record = 2, helper.refuse();
    else helper.ends([] { return true; }, wait);
    leave_place(0);
  }
  void finish() { nobody_is_there(); }
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

/// A filter ends the one at work at any of its calls. Whoever has work next starts another one, which makes that call no more.
struct Ended : Program {
  static constexpr unsigned kThreads = 3;
  void run(unsigned thread) {
    if (thread == 0) return go_on_filtered(0);
    if (thread == 2) return be_started(0, false);
    filter.store(true, Order::relaxed);
    put_work(1);
    are_no_more.store(1, Order::release);
  }
  void finish() {
    require(work == 0 || has_ended, "work is left, and nobody will do it");
    require(!is_helped(), "one that was ended is taken for one at work");
    nobody_is_there();
  }
};

/// The next one is ended, while the first still offers its place or leaves it.
struct EndedInRelief : Ended {
  void run(unsigned thread) {
    if (thread == 0) return go_on(0, true);
    if (thread == 1) return Ended::run(1);
    if (const unsigned place = wait_for_start(0)) helper.arrive(), go_on_filtered(place - 1);
  }
};

/// Two have work when one has been ended: one of them starts the next one, which may be ended as well.
struct EndedForTwo : Program {
  static constexpr unsigned kThreads = 3;
  EndedForTwo() { helper.word(0).store(0, Order::relaxed); }
  void run(unsigned thread) {
    if (thread < 2) {
      if (thread == 0) filter.store(true, Order::relaxed);
      if (!is_helped()) start(1);
      are_no_more.fetch_add(1, Order::release);
    } else if (const unsigned place = wait_for_start(0, 2)) {
      helper.arrive(), go_on_filtered(place - 1);
    }
  }
  void finish() {
    require(made == 1, "nobody has started one");
    require(!is_helped(), "one that was ended is taken for one at work");
    nobody_is_there();
  }
};

/// One leaves and another one is started in its place, while a third thread looks whether the first was ended.
struct NotEnded : Program {
  static constexpr unsigned kThreads = 4;
  void run(unsigned thread) {
    if (thread == 0) return be_there(0);
    if (thread == 1) return void(is_helped());
    if (thread == 2) {
      if (!is_helped()) start(1);
      return are_no_more.store(1, Order::release);
    }
    if (const unsigned place = wait_for_start(0)) helper.arrive(), be_there(place - 1);
  }
  void be_there(unsigned place) {
    stack[place] = 1, record = 1;
    helper.ends([] { return true; }, [] { cpu_relax(); });
    leave_place(place);
  }
};

/// One is at work, while another thread wants none there. What work is left is done by the next one.
struct SentAway : Program {
  static constexpr unsigned kThreads = 2;
  SentAway() { work = 1; }
  void run(unsigned thread) {
    if (thread == 0) work_while_wanted(0);
    else be_alone();
  }
  void work_while_wanted(unsigned place) {
    const auto wait = [] { cpu_relax(); };
    stack[place] = 1;
    do {
      record = 1;
      if (helper.is_sent_away(wait)) break;
      record = 2, do_work();
    } while (!helper.ends([this] { return is_done(); }, wait));
    leave_place(place);
  }
  void be_alone() {
    helper.keep_away();
    while (!helper.is_gone()) cpu_relax();
    static_cast<void>(touched == 3);  // is not changed now
    require(!helper.is_there(), "one has come though none is wanted");
    let_come();
  }
  /// Which works on the thread that starts it, to have one fewer.
  void let_come() {
    if (!helper.come_again() || !helper.claim()) return;
    const unsigned place = helper.free_place();
    require(place != OneHelper::kNoPlace, "no place is left");
    stack[place] = 0;
    helper.word(place).store(9, Order::relaxed);
    helper.arrive(), work_while_wanted(place);
  }
};

/// ... and so does a third one.
struct SentAwayByTwo : SentAway {
  static constexpr unsigned kThreads = 3;
};

/// ... which does not wait until it has gone, and has work then.
struct HardlySentAway : SentAway {
  static constexpr unsigned kThreads = 3;
  void run(unsigned thread) {
    if (thread == 0) return work_while_wanted(0);
    if (thread == 2) return be_started();
    helper.keep_away();
    let_come();
    put_work(1);
    are_no_more.store(1, Order::release);
  }
  void be_started() {
    if (const unsigned place = wait_for_start(0)) helper.arrive(), work_while_wanted(place - 1);
  }
};

/// None is there, and the program is about to start one.
struct KeptAway : HardlySentAway {
  KeptAway() {
    work = 0;
    helper.refuse();
    helper.word(0).store(0, Order::relaxed);
  }
  void run(unsigned thread) {
    if (thread == 0) put_work(1), are_no_more.store(1, Order::release);
    else if (thread == 1) be_alone();
    else be_started();
  }
};

TEST(OneHelper, Ends) { run<Ends>("one ends while there is more work"); }
TEST(OneHelper, Relieved) { run<Relieved>("one is relieved while there is more work"); }
TEST(OneHelper, Refused) { run<Refused>("... and the system refuses a thread once"); }
TEST(OneHelper, RefusedForGood) { run<RefusedForGood>("... and the first ends because of it"); }
TEST(OneHelper, RelievedTwice) { run<RelievedTwice>("one is relieved, and the next one as well"); }
TEST(OneHelper, Alone) { run<Alone>("a program of one thread asks whether it is alone"); }

TEST(OneHelper, Ended) { run<Ended>("one is ended by the system at any call"); }
TEST(OneHelper, EndedInRelief) { run<EndedInRelief>("... that relieves another one"); }
TEST(OneHelper, EndedForTwo) { run<EndedForTwo>("... and two have work, and the next one is ended as well"); }
TEST(OneHelper, NotEnded) { run<NotEnded>("one leaves and another one takes its place, while a thread looks for one that was ended"); }

TEST(OneHelper, SentAway) { run<SentAway>("one is at work while another thread wants none there"); }
TEST(OneHelper, SentAwayByTwo) { run<SentAwayByTwo>("... and so does a third one"); }
TEST(OneHelper, HardlySentAway) { run<HardlySentAway>("... and does not wait until it has gone"); }
TEST(OneHelper, KeptAway) { run<KeptAway>("one is about to be started while another thread wants none there"); }

TEST(OneHelper, OrdersAreNeeded) {
  EXPECT_EQ((needless_orders<Ends, RelievedTwice, Refused, Alone, NotEnded, EndedForTwo, SentAway, SentAwayByTwo, HardlySentAway, KeptAway>("OneHelper")), std::vector<std::string>{});
}

}  // namespace
}  // namespace mortise::model
