#include "explorer/search.hpp"

#include <algorithm>

namespace mortise::model {

namespace {
Search* g_active = nullptr;   // whose fiber is running
Search* g_current = nullptr;  // whose execution it is, set-up and finish included
constexpr unsigned kExpirationsMax = 64;
}  // namespace

Search* Search::active() { return g_active; }
Search* Search::current() { return g_current; }

Search::Search(const Subject& subject, const Options& options, Report& report)
    : subject_(subject), options_(options), report_(report) {
  for (ThreadId t = 0; t < kThreadsMax; ++t) {
    fibers_[t].search = this;
    fibers_[t].id = t;
  }
}

void Search::run(ThreadId frozen, unsigned frozen_steps) {
  frozen_ = frozen;
  frozen_steps_ = frozen_steps;
  nodes_.clear();
  fresh_from_ = 0;
  bool more = true;
  while (more && !failed_) {
    const Ended ended = execute_once();
    if (ended == Ended::completed) ++report_.executions;
    if (ended == Ended::pruned) ++report_.pruned;
    report_.steps += steps_.size();
    report_.longest = std::max<unsigned>(report_.longest, steps_.size());
    for (ThreadId t = 0; t < subject_.threads; ++t) longest_of_[t] = std::max(longest_of_[t], fibers_[t].steps);
    more = next_execution();
    if (options_.executions_max && report_.executions + report_.pruned >= options_.executions_max && more) {
      report_.complete = false;
      return;
    }
  }
}

void Search::begin_execution() {
  repeats_ = !nodes_.empty();
  answered_ = 0;
  if (!repeats_) {
    machine_.reset(options_.spurious_failures);
    answers_.clear();
    steps_.clear();
    ordering_.clear();
    barriers_.clear();
    told_.clear();
  }
  g_current = this;
  subject_.begin();
  for (ThreadId t = 0; t < subject_.threads; ++t) {
    Logical& self = fibers_[t];
    self.pending = nullptr;
    self.restart = nullptr;
    self.interrupted = false;
    self.aborts = self.section_steps = 0;
    self.core = -1;
    self.limit_name = nullptr;
    self.steps = self.counted = self.limit = self.expirations = 0;
    self.fiber.start(
        [](void* argument) {
          auto& logical = *static_cast<Logical*>(argument);
          logical.search->subject_.run(logical.id);
          logical.pending = nullptr;
          for (;;) logical.fiber.leave();
        },
        &self);
  }
  for (ThreadId t = 0; t < subject_.threads && !failed_; ++t) enter(t);
}

/// Lets the thread go on to its next operation.
void Search::enter(ThreadId thread) {
  running_ = thread;
  g_active = this;
  fibers_[thread].fiber.enter();
  g_active = nullptr;
  running_ = kNobody;
}

Search::Ended Search::execute_once() {
  begin_execution();
  for (std::size_t depth = repeat(); !failed_; ++depth) {
    Ended ended = Ended::completed;
    if (depth == nodes_.size() && depth % kSavedEvery == 0) save(depth);
    share_core();
    Node* const node = node_at(depth, ended);
    if (!node) {
      if (ended == Ended::pruned) find_races_of_sleepers();
      return ended;
    }
    if (depth >= options_.steps_max) {
      fail("an execution has no end (a wait loop without cpu_relax?)");
      return Ended::failed;
    }
    take(*node);
    if (depth + 1 >= fresh_from_ && options_.reduce && !failed_) find_races(steps_.back(), steps_.size() - 1);
  }
  return Ended::failed;
}

/// The node for the next step: that of the last execution as far as it is repeated, else a new one; null at the end.
Node* Search::node_at(std::size_t depth, Ended& ended) {
  if (depth < nodes_.size()) return &nodes_[depth];
  Node node;
  if (depth > 0 && options_.reduce) inherit_sleep(node, nodes_[depth - 1]);
  node.serial_next = machine_.serial_next();
  if (!select(node, ended)) return nullptr;
  nodes_.push_back(node);
  return &nodes_.back();
}

/// Finds out which threads can go on here and takes one. False if the execution ends here.
bool Search::select(Node& node, Ended& ended) {
  bool unfinished = false, enabled = false;
  for (ThreadId t = 0; t < subject_.threads; ++t) {
    if (!fibers_[t].pending) continue;
    if (t == frozen_ && fibers_[t].steps >= frozen_steps_) continue;
    unfinished = true;
    if (core_is_held(t)) {
      node.held |= 1u << t;
      continue;
    }
    if (fibers_[t].interrupted) {
      node.choices[t] = node.serial_min[t] == 0;
      enabled = true;
      continue;
    }
    machine_.choices(t, *fibers_[t].pending, 0, found_);
    enabled |= !found_.empty();
    if (node.serial_min[t] != 0) machine_.choices(t, *fibers_[t].pending, node.serial_min[t], found_);
    node.choices[t] = found_.size();
  }
  if (!unfinished) {
    const bool all = frozen_ == kNobody || !fibers_[frozen_].pending;
    if (all) subject_.finish();
    else if (subject_.stopped) subject_.stopped();
    ended = failed_ ? Ended::failed : Ended::completed;
    return false;
  }
  if (!enabled) {  // every wait loop goes round once more, in turn; an endless one is then caught
    for (ThreadId t = 0; t < subject_.threads && !node.expired; ++t) {
      if (!fibers_[t].pending || (t == frozen_ && fibers_[t].steps >= frozen_steps_)) continue;
      if (fibers_[t].expirations >= kExpirationsMax) continue;
      node.thread = t;
      node.expired = true;
      node.choices[t] = 1;
      node.wanted = 1u << t;
    }
    if (!node.expired) ended = stuck();
    return node.expired;
  }
  if (depth_given(node)) return true;
  const ThreadId last = steps_.empty() ? 0 : steps_.back().thread;
  for (ThreadId i = 0; i < subject_.threads; ++i) {
    const ThreadId t = (last + i) % subject_.threads;
    if (node.choices[t] == 0) continue;
    if (node.wanted == 0) node.thread = t;
    if (node.wanted == 0 || !options_.reduce) node.wanted |= 1u << t;
  }
  ended = Ended::pruned;
  return node.wanted != 0;
}

/// In a replay the schedule says which thread and which choice.
bool Search::depth_given(Node& node) {
  if (steps_.size() >= given_.size()) return false;
  const auto [thread, choice] = given_[steps_.size()];
  if (thread >= subject_.threads || choice >= node.choices[thread]) {
    fail("the schedule does not fit this scenario: it was made by another version of it");
    return false;
  }
  node.thread = thread;
  node.choice = choice;
  node.wanted = 1u << thread;
  return true;
}

Search::Ended Search::stuck() {
  std::string who;
  for (ThreadId t = 0; t < subject_.threads; ++t)
    if (fibers_[t].pending && t != frozen_) who += (who.empty() ? "" : ", ") + std::to_string(t);
  fail("thread " + who + " waits for ever" + (frozen_ == kNobody ? "" : " for a stopped thread"));
  return Ended::failed;
}

/// What sleeps at a node also sleeps behind it, unless the step taken disturbs it; and so does what was tried at the
/// node.
void Search::inherit_sleep(Node& node, const Node& parent) const {
  const Step& step = steps_.back();
  for (ThreadId t = 0; t < subject_.threads; ++t) {
    if (t == step.thread || !fibers_[t].pending) continue;
    std::uint32_t serial = parent.serial_min[t];
    if (parent.done & (1u << t)) serial = parent.serial_next;
    if (serial != 0 && !ordered(step.footprint, footprint_of(t))) node.serial_min[t] = serial;
  }
}

Footprint Search::footprint_of(ThreadId thread) const {
  const Operation& op = *fibers_[thread].pending;
  Footprint print;
  print.core = fibers_[thread].restart ? fibers_[thread].core : -1;
  print.barrier = op.kind == Kind::barrier;
  print.restart = op.kind == Kind::restart;
  print.fence = op.kind == Kind::fence;
  print.sequential = op.order == Order::seq_cst || (op.kind == Kind::compare_exchange && op.failure == Order::seq_cst);
  print.writes = op.kind != Kind::load && op.kind != Kind::load_low && op.kind != Kind::load_high && op.address;
  if (op.address) print.history = &const_cast<Machine&>(machine_).history_of(op.address, op.bytes);
  return print;
}

/// Whether the order of two steps matters for more than which message a read takes.
bool Search::ordered(const Footprint& a, const Footprint& b) const {
  if (a.barrier || b.barrier || (a.restart && b.restart)) return true;
  if ((a.restart && b.core >= 0) || (b.restart && a.core >= 0)) return true;
  if (a.core >= 0 && a.core == b.core) return true;
  if (!a.sequential || !b.sequential) return false;
  if (a.fence || b.fence) return true;
  return a.history == b.history && (a.writes || b.writes);
}

/// Adds the steps of other threads that such a step of `thread` is ordered behind.
void Search::join_ordered(Clock& cause, ThreadId thread, const Footprint& footprint) const {
  const auto join = [&](const Step& earlier) {
    if (earlier.thread != thread && ordered(earlier.footprint, footprint)) cause.join(earlier.cause);
  };
  if (footprint.barrier) std::for_each(steps_.begin(), steps_.end(), join);  // it is ordered with all
  else if (footprint.orders()) for (const unsigned i : ordering_) join(steps_[i]);
  else for (const unsigned i : barriers_) join(steps_[i]);
}

void Search::take(Node& node) {
  const ThreadId thread = node.thread;
  Logical& self = fibers_[thread];
  Step step;
  step.thread = thread;
  step.footprint = footprint_of(thread);
  step.before = machine_.cause(thread);
  join_ordered(machine_.cause(thread), thread, step.footprint);
  if (step.footprint.orders()) ordering_.push_back(static_cast<unsigned>(steps_.size()));
  if (step.footprint.barrier) barriers_.push_back(static_cast<unsigned>(steps_.size()));
  switch_core(thread);
  step.restart = self.interrupted;
  if (self.interrupted) {
    ++machine_.cause(thread).at[thread];
  } else {
    if (node.expired) {
      ++self.expirations;
      found_.assign(1, Choice{});
    } else {
      machine_.choices(thread, *self.pending, node.serial_min[thread], found_);
    }
    check_repeats(node);
    if (failed_) return;
    step.choice = found_[node.choice];
    step.choice_index = index_of(node, step.choice);
    step.effect = machine_.execute(thread, *self.pending, step.choice);
  }
  step.index = machine_.cause(thread).at[thread];
  step.cause = machine_.cause(thread);
  step.op = *self.pending;
  ++self.steps;
  if (self.pending->kind != Kind::await) ++self.counted;
  told_.push_back({print_of(step.op), step.op.result, step.effect.left, thread, step.op.success, step.restart, node.expired,
                   step.effect.written != nullptr});
  const bool reads_poison = step.effect.read && step.effect.read->poison && step.op.kind != Kind::await;
  steps_.push_back(std::move(step));
  if (self.limit_name && self.counted > self.limit)
    return fail(std::string(self.limit_name) + " takes more steps than its bound");
  if (reads_poison) return fail("reads a word before its constructor has run");
  enter(thread);
}

/// The search stands on this: the same steps lead to the same operation.
void Search::check_repeats(Node& node) {
  const Operation& op = *fibers_[node.thread].pending;
  const std::uintptr_t print = print_of(op);
  if (node.print == 0 || steps_.size() + 1 >= fresh_from_) node.print = print;
  if (node.print == print && node.choice < found_.size()) return;
  fail("the scenario does not repeat itself: it depends on more than its steps");
}

/// Which of all choices this is, whether or not some were left out here as tried before: what a schedule names.
unsigned Search::index_of(const Node& node, const Choice& choice) {
  if (node.serial_min[node.thread] == 0) return node.choice;
  std::vector<Choice> all;
  machine_.choices(node.thread, *fibers_[node.thread].pending, 0, all);
  for (unsigned i = 0; i < all.size(); ++i)
    if (all[i].message == choice.message && all[i].history == choice.history && all[i].spurious == choice.spurious)
      return i;
  return 0;
}

/// Sequences of one core run one after the other, and the kernel's switch makes what ran known to what runs next. (That
/// also holds between sequences and other code; leaving it out there allows more than can happen, and much less to
/// try.)
void Search::share_core() {
  if (!steps_.empty() && steps_.back().footprint.core >= 0)
    machine_.publish_core(steps_.back().thread, static_cast<unsigned>(steps_.back().footprint.core));
  for (ThreadId t = 0; t < subject_.threads; ++t)
    if (fibers_[t].pending && fibers_[t].restart) machine_.learn_core(t, static_cast<unsigned>(fibers_[t].core));
}

/// A step of one sequence aborts those that other threads of the core have begun.
void Search::switch_core(ThreadId thread) {
  Logical& self = fibers_[thread];
  if (!self.restart) return;
  ++self.section_steps;
  for (ThreadId t = 0; t < subject_.threads; ++t) {
    Logical& other = fibers_[t];
    if (t == thread || !is_in_section(other) || other.core != self.core || other.interrupted) continue;
    other.interrupted = true;
    ++other.aborts;
  }
}

bool Search::is_in_section(const Logical& logical) {
  return logical.pending && logical.restart && logical.section_steps > 0;
}

/// Whether a sequence of `thread` would abort one that has been aborted often enough.
bool Search::core_is_held(ThreadId thread) const {
  const Logical& self = fibers_[thread];
  for (ThreadId t = 0; self.restart && t < subject_.threads; ++t) {
    const Logical& other = fibers_[t];
    if (t == thread || !is_in_section(other) || other.core != self.core || other.interrupted) continue;
    const bool stopped = t == frozen_ && other.steps >= frozen_steps_;
    if (other.aborts >= options_.aborts_max && !stopped) return true;
  }
  return false;
}

/// Looks for steps before steps_[count] that `late`, which came there or would come there, could have preceded with
/// another outcome.
void Search::find_races(const Step& late, std::size_t count) {
  Clock known = late.before;
  unsigned left = unknown_to(late, known);
  for (std::size_t i = count; left > 0 && i-- > 0;) {
    const ThreadId thread = told_[i].thread;
    if (thread == late.thread) continue;
    const Step& early = steps_[i];
    if (known.at[thread] >= early.index) continue;
    --left;
    const Effect& a = early.effect;
    const bool order = ordered(early.footprint, late.footprint);
    const bool reads_it =
        a.reads && (a.history == late.effect.history ||
                    std::find(a.awaited.begin(), a.awaited.end(), late.effect.history) != a.awaited.end());
    // A compare-exchange that fails here might have succeeded before another one took the message it hoped for.
    const bool might_write = late.effect.writes || (a.writes && late.footprint.writes);
    if (order || (reads_it && might_write)) want(i, late, count);
    if (order || (a.written && a.written == late.effect.read)) {
      known.join(early.cause);
      left = std::min(left, unknown_to(late, known));
    }
  }
}

/// How many steps of other threads are not known.
unsigned Search::unknown_to(const Step& late, const Clock& known) const {
  unsigned count = 0;
  for (ThreadId t = 0; t < subject_.threads; ++t)
    if (t != late.thread && fibers_[t].steps > known.at[t]) count += fibers_[t].steps - known.at[t];
  return count;
}

/// What sleeps at the end of a pruned execution was tried, but not behind all the stores that this execution made
/// before it: it may have to come before earlier steps together with them. So it is looked at as if it came now.
void Search::find_races_of_sleepers() {
  for (ThreadId t = 0; t < subject_.threads; ++t) {
    if (!fibers_[t].pending || (t == frozen_ && fibers_[t].steps >= frozen_steps_)) continue;
    Step late;
    late.thread = t;
    late.index = machine_.cause(t).at[t] + 1;
    late.footprint = footprint_of(t);
    late.op = *fibers_[t].pending;
    late.effect.history = late.footprint.history;
    late.effect.writes = late.footprint.writes;
    late.effect.reads = late.op.address && late.op.kind != Kind::store;
    late.before = late.cause = machine_.cause(t);
    join_ordered(late.cause, t, late.footprint);
    find_races(late, steps_.size());
  }
}

/// `late` should also be tried before step `depth`: wants a thread there from which that comes about.
void Search::want(std::size_t depth, const Step& late, std::size_t count) {
  const Step& early = steps_[depth];
  Node& node = nodes_[depth];
  std::vector<const Step*> rest;  // what happened since without resting on `early`, and then the late step
  for (std::size_t i = depth + 1; i < count; ++i)
    if (steps_[i].cause.at[early.thread] < early.index) rest.push_back(&steps_[i]);
  rest.push_back(&late);
  unsigned seen = 0, initials = 0;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    const unsigned bit = 1u << rest[i]->thread;
    if (seen & bit) continue;
    seen |= bit;
    // The late step will choose anew, so it rests on every store in `rest` that it might then read.
    const bool anew = rest[i] == &late && late.effect.reads;
    const bool rests = std::any_of(rest.begin(), rest.begin() + i, [&](const Step* other) {
      return rest[i]->cause.at[other->thread] >= other->index ||
             (anew && other->effect.writes && other->effect.history == late.effect.history);
    });
    if (!rests) initials |= bit;
  }
  if (node.wanted & initials) return;
  if (initials & node.held) {  // it cannot be had here, so whatever can comes before it
    for (ThreadId t = 0; t < subject_.threads; ++t)
      if (node.choices[t] != 0) node.wanted |= 1u << t;
    return;
  }
  const unsigned mine = 1u << late.thread;
  node.wanted |= initials & mine ? mine : initials & -initials;
}

/// Goes back to the last step with something left to try. False when nothing is.
bool Search::next_execution() {
  while (!nodes_.empty()) {
    Node& node = nodes_.back();
    if (node.choice + 1 < node.choices[node.thread]) {
      ++node.choice;
      break;
    }
    node.done |= 1u << node.thread;
    unsigned left = node.wanted & ~node.done;
    for (ThreadId t = 0; t < subject_.threads; ++t)
      if (node.choices[t] == 0) left &= ~(1u << t);
    if (left != 0) {
      node.thread = __builtin_ctz(left);
      node.choice = 0;
      break;
    }
    nodes_.pop_back();
  }
  fresh_from_ = nodes_.size();
  return !nodes_.empty();
}

void Search::fail(const std::string& message) {
  if (failed_) return;
  failed_ = true;
  report_.failure = message;
  report_.schedule = schedule();
  report_.steps_text = describe_steps();
}

}  // namespace mortise::model
