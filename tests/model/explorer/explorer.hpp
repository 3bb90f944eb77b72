// The explorer: runs a scenario in every way that matters, and says which way breaks it.
//
//   struct HandOver {                                   // a scenario: fresh state for every execution
//     static constexpr unsigned kThreads = 2;
//     Atomic<bool> ready;  Shared<int> data;
//     void run(unsigned thread) {                       // what each logical thread does; it owns no memory
//       if (thread == 0) { data = 42; ready.store(true, Order::release); }
//       else if (ready.load(Order::acquire)) require(data == 42, "the data came with the flag");
//     }
//     void finish() {}                                  // after all have ended: what must hold then
//     void stopped() {}                                 // may be left out: where one was stopped for ever, as by a fork
//   };
//   Report report = explore<HandOver>({.freeze = true});
//   EXPECT_TRUE(report.passed()) << report.text();
//
// Algorithm: stateless search by replay (repeat.cpp says what of a replay is left out).
// An execution is a list of steps, each a thread and, where the memory model leaves one, a choice (which message a load reads, where a store stands). The search goes back to the last step that
// has an untried choice or an untried thread which matters. Threads matter by source sets; what was tried sleeps until
// a step disturbs it. Because a load may read an old message anyway, and a store may stand before another, only these
// pairs of steps disturb each other: a read followed by a write of the same word; sequentially consistent steps; steps
// on one core; a barrier. A thread that reached the search's earlier choices again reads only messages that are newer
// than the last try. Source: [AbdullaEtAl14] source sets, [Godefroid96] sleep sets, [NorrisDemsky13] message histories
// with staleness.
#pragma once

#include <functional>
#include <new>
#include <string>

#include "explorer/machine.hpp"

namespace mortise::model {

/// A place in the code under test that asks for an order stronger than relaxed.
struct Site {
  std::string function;  // as the compiler names it
  std::string kind;      // load, store to, exchange, ...
  unsigned line = 0;
  bool operator==(const Site&) const = default;
};

struct Options {
  /// Stop each thread for ever at each of its steps, one at a time; the others must still finish.
  bool freeze = false;
  /// How often a thread's weak compare-exchanges may fail for no reason.
  unsigned spurious_failures = 0;
  /// How often the switches of its core may abort a thread's restartable sequences; after that it is not switched away
  /// from within one. Two threads could otherwise abort each other for ever.
  unsigned aborts_max = 2;
  /// An execution with more steps than this is taken for one without end.
  unsigned steps_max = 400;
  /// The search gives up, and says so, after this many executions; 0 means never.
  std::uint64_t executions_max = 0;
  /// False tries every thread at every step: only to check the reduction itself.
  bool reduce = true;
  /// A schedule from an earlier Report: that execution alone is run, and its steps are in the Report.
  std::string replay{};
  /// Carries out the operations at this place as relaxed ones: whether the order is needed.
  Site weaken{};
};

struct Report {
  std::uint64_t executions = 0;  // run to their end
  std::uint64_t pruned = 0;      // left half-way as equal to one already run
  std::uint64_t steps = 0;       // taken in all of them
  unsigned longest = 0;          // steps of the longest execution
  bool complete = false;         // everything was tried
  std::string failure;           // what went wrong, empty if nothing did
  std::string schedule;          // the execution that shows it, for Options::replay
  std::string steps_text;        // its steps, one a line
  struct Bound {
    const char* name;
    unsigned limit, reached;
  };
  std::vector<Bound> bounds;  // what StepLimit saw
  std::vector<Site> sites;    // all places with an order, of all executions

  bool passed() const { return complete && failure.empty(); }
  bool found(const char* what) const { return failure.find(what) != std::string::npos; }
  /// One line of counts, then whatever failed with its schedule and steps.
  std::string text() const;
};

/// A scenario as the search sees it.
struct Subject {
  unsigned threads;
  std::function<void()> begin;  // makes a fresh one
  std::function<void(ThreadId)> run;
  std::function<void()> finish;
  const void* base = nullptr;  // addresses are printed relative to it
  std::function<void()> stopped = {};  // in place of finish(), where a thread was stopped for ever
};

Report explore(const Subject& subject, Options options);

template <class Scenario>
Report explore(Options options = {}) {
  static_assert(Scenario::kThreads >= 1 && Scenario::kThreads <= kThreadsMax, "a scenario has 1 to 4 threads");
  // One place for all executions: addresses are the same in a replay.
  const auto place = std::make_unique<std::byte[]>(sizeof(Scenario) + 64);
  void* const aligned =
      reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(place.get()) + 63) & ~std::uintptr_t{63});
  Scenario* scenario = nullptr;
  Subject subject{Scenario::kThreads, [&] { scenario = ::new (aligned) Scenario(); },
                  [&](ThreadId thread) { scenario->run(thread); }, [&] { scenario->finish(); }, aligned};
  if constexpr (requires { scenario->stopped(); }) subject.stopped = [&] { scenario->stopped(); };
  return explore(subject, std::move(options));
}

/// Fails the execution with this message if the condition does not hold.
void require(bool condition, const char* message);

/// While it lives, its thread may take `limit` steps: the bound of a wait-free operation.
class StepLimit {
 public:
  StepLimit(const char* name, unsigned limit);
  ~StepLimit();
  StepLimit(const StepLimit&) = delete;
  StepLimit& operator=(const StepLimit&) = delete;

 private:
  const char* name_;
  unsigned limit_;
  unsigned before_;
};

}  // namespace mortise::model
