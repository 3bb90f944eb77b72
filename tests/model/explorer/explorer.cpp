#include "explorer/explorer.hpp"

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "explorer/hooks.hpp"
#include "explorer/search.hpp"

namespace mortise::model {

// What a fiber may ask of its search.

void Search::perform(Operation& op) {
  Logical& self = fibers_[running_];
  if (op.order != Order::relaxed) note_site(op);
  if (op.address && !repeats_) machine_.history_of(op.address, op.bytes);
  self.last = op.where;
  self.pending = &op;
  self.fiber.leave();
  if (!self.interrupted) return;
  self.interrupted = false;
  std::jmp_buf* const restart = self.restart;
  self.restart = nullptr;
  std::longjmp(*restart, 1);
}

/// Remembers where an order is asked for, and drops it where the options say so.
void Search::note_site(Operation& op) {
  if (op.kind == Kind::await || op.kind == Kind::barrier) return;
  for (unsigned i = 0; i < sites_.size(); ++i) {
    if (sites_[i].line() != op.where.line() || sites_[i].function_name() != op.where.function_name()) continue;
    if (report_.sites[i] == options_.weaken) op.order = op.failure = Order::relaxed;
    return;
  }
  sites_.push_back(op.where);
  report_.sites.push_back({op.where.function_name(), name_of(op.kind), op.where.line()});
  if (report_.sites.back() == options_.weaken) op.order = op.failure = Order::relaxed;
}

void Search::abandon(const std::string& message) {
  fail(message);
  for (;;) fibers_[running_].fiber.leave();
}

void Search::plain_access(const void* address, bool write, std::source_location where) {
  if (repeats_) return;
  // An implicit conversion cannot know who asks for it; then the thread's last step is the nearest place there is.
  if (std::string_view(where.file_name()).ends_with("sync/atomics.hpp")) where = fibers_[running_].last;
  const std::source_location* other = machine_.plain_access(running_, address, write, where);
  if (!other) return;
  char text[400];
  std::snprintf(text, sizeof text, "race: thread %u %s plain data at %s:%u (%s) unordered with %s:%u (%s)", running_,
                write ? "writes" : "reads", where.file_name(), where.line(), where.function_name(), other->file_name(),
                other->line(), other->function_name());
  abandon(text);
}

void Search::relax(std::source_location where) {
  if (!answer([&] { return machine_.idle(running_); })) return;
  Operation op{.kind = Kind::await, .where = where};
  perform(op);
}

void Search::construct(const void* address, unsigned bytes, Value value) {
  if (answer([&] { return machine_.construct(running_, address, bytes, value); })) return;
  Operation op{.kind = Kind::store, .address = address, .bytes = bytes, .operand = value};
  perform(op);
}

void Search::fence(Order order, std::source_location where) {
  Operation op{.kind = Kind::fence, .order = order, .where = where};
  note_site(op);
  if (op.order == Order::seq_cst) return perform(op);
  if (!repeats_) machine_.local_fence(running_, op.order);
}

void Search::pause(std::source_location where) {
  Operation op{.kind = Kind::pause, .where = where};
  perform(op);
}

void Search::section_begin(std::jmp_buf* restart) {
  fibers_[running_].restart = restart;
  fibers_[running_].section_steps = 0;
}

void Search::barrier(std::source_location where) {
  Operation op{.kind = Kind::barrier, .order = Order::seq_cst, .where = where};
  perform(op);
}

void Search::restart_sections(std::source_location where) {
  Operation op{.kind = Kind::restart, .where = where};
  const ThreadId self = running_;
  perform(op);
  for (ThreadId t = 0; t < subject_.threads; ++t)
    if (t != self && is_in_section(fibers_[t])) fibers_[t].interrupted = true;
}

unsigned Search::limit_begin(const char* name, unsigned limit) {
  Logical& self = fibers_[running_];
  self.limit_name = name;
  self.limit = self.counted + limit;
  return self.counted;
}

void Search::limit_end(const char* name, unsigned limit, unsigned before) {
  Logical& self = fibers_[running_];
  self.limit_name = nullptr;
  const unsigned reached = self.counted - before;
  for (Report::Bound& bound : report_.bounds) {
    if (std::string_view(bound.name) != name || bound.limit != limit) continue;
    bound.reached = reached > bound.reached ? reached : bound.reached;
    return;
  }
  report_.bounds.push_back({name, limit, reached});
}

// Hooks: in a fiber they go to its search, else they act at once.

namespace hooks {

namespace {

int g_core_outside = 0;  // where what is outside a logical thread is done

std::uint64_t masked(std::uint64_t value, unsigned bytes) {
  return bytes >= 8 ? value : value & ((std::uint64_t{1} << (bytes * 8)) - 1);
}

void perform_at_once(Operation& op) {
  void* const word = const_cast<void*>(op.address);
  Value now, next = op.operand;
  __builtin_memcpy(&now, word, op.bytes);
  op.result = now;
  op.success = true;
  switch (op.kind) {
    case Kind::load:
    case Kind::load_low:
    case Kind::load_high:
      return;
    case Kind::add:
      next.low = masked(now.low + op.operand.low, op.bytes);
      break;
    case Kind::sub:
      next.low = masked(now.low - op.operand.low, op.bytes);
      break;
    case Kind::bit_or:
      next.low = now.low | op.operand.low;
      break;
    case Kind::bit_and:
      next.low = now.low & op.operand.low;
      break;
    case Kind::compare_exchange:
      op.success = now == op.expected;
      if (!op.success) return;
      break;
    default:
      break;
  }
  __builtin_memcpy(word, &next, op.bytes);
}

}  // namespace

void perform(Operation& op) {
  if (Search* search = Search::active()) return search->perform(op);
  perform_at_once(op);
}
void construct(const void* address, unsigned bytes, Value value) {
  if (Search* search = Search::active()) search->construct(address, bytes, value);
}
void fence(Order order, std::source_location where) {
  if (Search* search = Search::active()) search->fence(order, where);
}
void relax(std::source_location where) {
  if (Search* search = Search::active()) search->relax(where);
}
void plain_access(const void* address, bool write, std::source_location where) {
  if (Search* search = Search::active()) search->plain_access(address, write, where);
}
void pause(std::source_location where) {
  if (Search* search = Search::active()) search->pause(where);
}
const void* thread() { return Search::active() ? Search::active()->thread() : nullptr; }
int core() {
  Search* const search = Search::active();
  return search ? search->core() : g_core_outside;
}
void run_on_core(int core) {
  if (Search* search = Search::active()) search->run_on_core(core);
  else g_core_outside = core;
}
void section_begin(std::jmp_buf* restart) {
  if (Search* search = Search::active()) search->section_begin(restart);
}
void section_end() {
  if (Search* search = Search::active()) search->section_end();
}
void barrier(std::source_location where) {
  if (Search* search = Search::active()) search->barrier(where);
}
void restart_sections(std::source_location where) {
  if (Search* search = Search::active()) search->restart_sections(where);
}

}  // namespace hooks

void require(bool condition, const char* message) {
  if (condition) return;
  if (Search* search = Search::active()) search->abandon(message);
  if (Search* search = Search::current()) search->fail(message);
}

StepLimit::StepLimit(const char* name, unsigned limit) : name_(name), limit_(limit), before_(0) {
  if (Search* search = Search::active()) before_ = search->limit_begin(name, limit);
}
StepLimit::~StepLimit() {
  if (Search* search = Search::active()) search->limit_end(name_, limit_, before_);
}

Report explore(const Subject& subject, Options options) {
  Report report;
  report.complete = true;
  if (const char* given = std::getenv("MORTISE_MODEL_REPLAY")) options.replay = given;
  Search search(subject, options, report);
  if (!options.replay.empty()) {
    if (!search.replay(options.replay)) report.failure = "the schedule cannot be read; expected what a report printed";
    return report;
  }
  search.run(kNobody, 0);
  std::array<unsigned, kThreadsMax> steps{};
  for (ThreadId t = 0; t < subject.threads; ++t) steps[t] = search.longest_of(t);
  for (ThreadId t = 0; options.freeze && t < subject.threads; ++t)
    for (unsigned k = 0; k < steps[t] && report.passed(); ++k) search.run(t, k);
  return report;
}

}  // namespace mortise::model
