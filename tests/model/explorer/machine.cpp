#include "explorer/machine.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace mortise::model {

namespace {

constexpr Stamp kGap = Stamp{1} << 40;

[[noreturn]] void limit(const char* what) {
  std::fprintf(stderr, "explorer: the scenario needs more %s than the explorer has room for; make it smaller\n", what);
  std::abort();
}

Value load_raw(const void* address, unsigned bytes) {
  Value value;
  std::memcpy(&value, address, bytes);
  return value;
}

void store_raw(const void* address, unsigned bytes, Value value) {
  std::memcpy(const_cast<void*>(address), &value, bytes);
}

bool is_load(Kind kind) { return kind == Kind::load || kind == Kind::load_low || kind == Kind::load_high; }

Order read_part(Order order) { return order == Order::release ? Order::relaxed : order; }

}  // namespace

View& View::operator=(const View& other) {
  count = other.count;
  std::copy_n(other.at.begin(), count, at.begin());
  return *this;
}

void View::raise(unsigned cell, Stamp stamp) {
  for (; count <= cell; ++count) at[count] = 0;
  at[cell] = std::max(at[cell], stamp);
}

void View::join(const View& other) {
  for (; count < other.count; ++count) at[count] = 0;
  for (unsigned i = 0; i < other.count; ++i) at[i] = std::max(at[i], other.at[i]);
}

void Machine::reset(unsigned spurious_failures) {
  for (ThreadId t = 0; t < kThreadsMax; ++t) {
    Thread& self = threads_[t];
    for (Knowledge* k : {&self.current, &self.acquired, &self.released}) {
      k->view.count = 0;
      k->clock = Clock{};
    }
    self.current.clock.at[t] = self.acquired.clock.at[t] = 1;
    self.cause = Clock{};
    self.touched.clear();
    self.awaited.clear();
    self.previous.clear();
    self.forced_history = nullptr;
    self.forced = nullptr;
    self.spurious = 0;
    self.compared = false;
  }
  for (Knowledge& core : cores_) {
    core.view.count = 0;
    core.clock = Clock{};
  }
  histories_used_ = messages_used_ = 0;
  plain_.clear();
  sc_written_.count = sc_read_.count = 0;
  serial_next_ = 1;
  cells_ = 0;
  spurious_max_ = spurious_failures;
}

void Machine::save(State& to) { to = parts(); }

void Machine::restore(const State& from) {
  parts() = from;
  for (std::size_t i = 0; i < histories_used_; ++i)
    std::erase_if(histories_[i]->messages, [&](const Message* m) { return m->serial >= serial_next_; });
  for (std::size_t i = 0; i < messages_used_; ++i)
    if (messages_[i]->followed >= serial_next_) messages_[i]->followed = 0;
}

Message& Machine::new_message(ThreadId thread, Value value) {
  if (messages_used_ == messages_.size()) messages_.push_back(std::make_unique<Message>());
  Message& message = *messages_[messages_used_++];
  message.value = value;
  message.stamp = 0;
  message.released.view.count = 0;
  message.released.clock = Clock{};
  message.cause = thread == kNobody ? Clock{} : threads_[thread].cause;
  message.serial = serial_next_++;
  message.writer = thread;
  message.followed = 0;
  message.poison = false;
  return message;
}

History& Machine::history_of(const void* address, unsigned bytes) {
  for (std::size_t i = 0; i < histories_used_; ++i)
    if (histories_[i]->address == address && histories_[i]->bytes == bytes) return *histories_[i];
  if (histories_used_ == histories_.size()) histories_.push_back(std::make_unique<History>());
  History& history = *histories_[histories_used_++];
  history.address = address;
  history.bytes = bytes;
  history.cell = cells_;
  cells_ += bytes == 16 ? 2 : 1;
  if (cells_ > kCellsMax) limit("atomic words");
  history.messages.clear();
  append(history, new_message(kNobody, load_raw(address, bytes)), nullptr);
  return history;
}

/// Puts `message` directly behind `behind`, or first.
void Machine::append(History& history, Message& message, const Message* behind) {
  auto& all = history.messages;
  auto place = behind ? std::find(all.begin(), all.end(), behind) + 1 : all.begin();
  const Stamp before = behind ? behind->stamp : 0;
  message.stamp = place == all.end() ? before + kGap : before + ((*place)->stamp - before) / 2;
  if (message.stamp == before) limit("stores between two stores");
  all.insert(place, &message);
  store_raw(history.address, history.bytes, all.back()->value);
}

Stamp Machine::floor(const Thread& self, const History& history, Kind kind, Order order, bool writes) const {
  Stamp stamp = 0;
  const unsigned first = history.cell + (kind == Kind::load_high ? 1 : 0);
  const unsigned last = history.cell + (history.pair() && kind != Kind::load_low ? 1 : 0);
  for (unsigned cell = first; cell <= last; ++cell) {
    stamp = std::max(stamp, self.current.view.of(cell));
    if (order != Order::seq_cst) continue;
    stamp = std::max(stamp, sc_written_.of(cell));
    if (writes) stamp = std::max(stamp, sc_read_.of(cell));
  }
  return stamp;
}

void Machine::choices(ThreadId thread, const Operation& op, std::uint32_t serial_min, std::vector<Choice>& out) {
  out.clear();
  Thread& self = threads_[thread];
  if (op.kind == Kind::fence || op.kind == Kind::barrier || op.kind == Kind::restart || op.kind == Kind::pause) {
    if (serial_min == 0) out.push_back({});
    return;
  }
  if (op.kind == Kind::await) {
    for (auto [history, stamp] : self.awaited)
      for (Message* m : history->messages)
        if (m->stamp > stamp && m->serial >= serial_min) out.push_back({m, history});
    return;
  }
  History& history = history_of(op.address, op.bytes);
  const bool store = op.kind == Kind::store;
  if (store && serial_min != 0) return;
  Message* const forced = !store && self.forced_history == &history ? self.forced : nullptr;
  find_messages(self, op, history, forced, out);
  if (forced && out.empty()) find_messages(self, op, history, nullptr, out);  // what the await chose cannot be had by this operation
  if (!store) std::erase_if(out, [&](const Choice& choice) { return choice.message->serial < serial_min; });
}

/// What `op` may read, or store behind; of these only `forced` if there is one.
void Machine::find_messages(const Thread& self, const Operation& op, History& history, const Message* forced, std::vector<Choice>& out) const {
  const bool load = is_load(op.kind), cas = op.kind == Kind::compare_exchange;
  const Stamp low = floor(self, history, op.kind, op.order, !load);
  const Stamp low_failed = cas ? floor(self, history, op.kind, op.failure, false) : 0;
  for (auto i = history.messages.rbegin(); i != history.messages.rend(); ++i) {
    Message* const m = *i;
    if (forced && m != forced) continue;
    if (cas && m->value != op.expected) {
      if (m->stamp >= low_failed) out.push_back({m, &history});
      continue;
    }
    if (m->stamp >= low && (load || !m->followed)) out.push_back({m, &history});
    if (cas && op.weak && self.spurious < spurious_max_ && m->stamp >= low_failed) out.push_back({m, &history, true});
  }
}

void Machine::read(Thread& self, History& history, const Message& message, Order order, Kind kind) {
  const unsigned first = history.cell + (kind == Kind::load_high ? 1 : 0);
  const unsigned last = history.cell + (history.pair() && kind != Kind::load_low ? 1 : 0);
  for (unsigned cell = first; cell <= last; ++cell) {
    self.current.view.raise(cell, message.stamp);
    self.acquired.view.raise(cell, message.stamp);
    if (order == Order::seq_cst) sc_read_.raise(cell, message.stamp);
  }
  self.cause.join(message.cause);
  self.acquired.join(message.released);
  if (is_acquire(order)) self.current.join(message.released);
  if (self.forced_history == &history) self.forced_history = nullptr;
  if (std::find(self.touched.begin(), self.touched.end(), &history) == self.touched.end())
    self.touched.push_back(&history);
}

Value Machine::updated(const Operation& op, Value before) {
  const std::uint64_t mask = op.bytes >= 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (op.bytes * 8)) - 1;
  switch (op.kind) {
    case Kind::add:
      return {(before.low + op.operand.low) & mask, 0};
    case Kind::sub:
      return {(before.low - op.operand.low) & mask, 0};
    case Kind::bit_or:
      return {before.low | op.operand.low, 0};
    case Kind::bit_and:
      return {before.low & op.operand.low, 0};
    default:
      return op.operand;
  }
}

/// A store behind choice.message, or an update of it.
Effect Machine::execute_write(ThreadId thread, Operation& op, const Choice& choice, bool updates) {
  Thread& self = threads_[thread];
  History& history = *choice.history;
  Effect effect;
  effect.history = &history;
  effect.writes = true;
  if (updates) {
    effect.reads = true;
    effect.read = choice.message;
    read(self, history, *choice.message, read_part(op.order), op.kind);
    choice.message->followed = serial_next_;
    self.compared = true;
  }
  Message& message = new_message(thread, updates ? updated(op, choice.message->value) : op.operand);
  append(history, message, choice.message);
  const unsigned last = history.cell + (history.pair() ? 1 : 0);
  for (unsigned cell = history.cell; cell <= last; ++cell) {
    self.current.view.raise(cell, message.stamp);
    self.acquired.view.raise(cell, message.stamp);
    if (op.order == Order::seq_cst) sc_written_.raise(cell, message.stamp);
  }
  message.released = is_release(op.order) ? self.current : self.released;
  if (updates) message.released.join(choice.message->released);
  effect.written = &message;
  effect.left = history.messages.back()->value;
  return effect;
}

void Machine::execute_fence(Thread& self) {
  self.current.join(self.acquired);
  self.current.view.join(sc_written_);
  sc_written_.join(self.current.view);
  self.acquired.join(self.current);
  self.released = self.current;
}

/// As if every other thread stood still at a full fence while this one passes.
void Machine::execute_barrier(ThreadId thread) {
  const Knowledge before = threads_[thread].current;
  for (ThreadId other = 0; other < kThreadsMax; ++other) {
    if (other == thread) continue;
    Thread& stopped = threads_[other];
    threads_[thread].current.join(stopped.current);
    threads_[thread].cause.join(stopped.cause);
    stopped.current.join(before);
    execute_fence(stopped);
    ++stopped.current.clock.at[other];
  }
  execute_fence(threads_[thread]);
}

/// All sequences before it have ended and are known; all sequences behind it know what came before it.
void Machine::execute_restart(Thread& self) {
  for (const Knowledge& core : cores_) self.current.join(core);
  self.acquired.join(self.current);
  for (Knowledge& core : cores_) core.join(self.current);
}

Effect Machine::execute(ThreadId thread, Operation& op, const Choice& choice) {
  Thread& self = threads_[thread];
  ++self.cause.at[thread];
  Effect effect;
  if (op.kind == Kind::fence) {
    execute_fence(self);
    effect.fence = effect.sequential = true;
  } else if (op.kind == Kind::pause) {
    // It only marks a point at which its core may switch to another thread.
  } else if (op.kind == Kind::restart) {
    execute_restart(self);
  } else if (op.kind == Kind::barrier) {
    execute_barrier(thread);
    effect.barrier = true;
  } else if (op.kind == Kind::await) {
    for (auto [history, stamp] : self.awaited) effect.awaited.push_back(history);
    effect.reads = true;
    if (choice.message) {
      effect.read = choice.message;
      effect.history = choice.history;
      self.cause.join(choice.message->cause);
      self.forced_history = choice.history;
      self.forced = choice.message;
    }
  } else if (op.kind == Kind::store) {
    effect = execute_write(thread, op, choice, false);
  } else if (is_load(op.kind) ||
             (op.kind == Kind::compare_exchange && (choice.spurious || choice.message->value != op.expected))) {
    const Order order = is_load(op.kind) ? op.order : op.failure;
    op.result = choice.message->value;
    op.success = false;
    if (choice.spurious) ++self.spurious;
    if (!is_load(op.kind)) self.compared = true;
    read(self, *choice.history, *choice.message, order, op.kind);
    effect.history = choice.history;
    effect.read = choice.message;
    effect.reads = true;
    effect.sequential = order == Order::seq_cst;
  } else {
    op.result = choice.message->value;
    op.success = true;
    effect = execute_write(thread, op, choice, true);
  }
  if (effect.read && !effect.writes) effect.old = effect.history->messages.back() != effect.read;
  if (effect.writes) effect.sequential = op.order == Order::seq_cst;
  ++self.current.clock.at[thread];
  self.acquired.clock.at[thread] = self.current.clock.at[thread];
  return effect;
}

void Machine::local_fence(ThreadId thread, Order order) {
  Thread& self = threads_[thread];
  if (is_acquire(order)) self.current.join(self.acquired);
  if (is_release(order)) {
    self.released = self.current;
    ++self.current.clock.at[thread];
    self.acquired.clock.at[thread] = self.current.clock.at[thread];
  }
}

bool Machine::construct(ThreadId thread, const void* address, unsigned bytes, Value value) {
  for (std::size_t i = 0; i < histories_used_; ++i)
    if (histories_[i]->address == address && histories_[i]->bytes == bytes) return false;
  History& history = history_of(address, bytes);
  history.messages.front()->poison = true;
  Message& message = new_message(thread, value);
  append(history, message, history.messages.front());
  for (unsigned cell = history.cell; cell <= history.cell + (history.pair() ? 1 : 0); ++cell) {
    threads_[thread].current.view.raise(cell, message.stamp);
    threads_[thread].acquired.view.raise(cell, message.stamp);
  }
  message.released = threads_[thread].released;
  return true;
}

const std::source_location* Machine::plain_access(ThreadId thread, const void* address, bool write,
                                                  std::source_location where) {
  const Clock& known = threads_[thread].current.clock;
  auto cell = std::find_if(plain_.begin(), plain_.end(), [&](const Plain& p) { return p.address == address; });
  if (cell == plain_.end()) cell = plain_.insert(plain_.end(), Plain{.address = address});
  if (cell->writer != kNobody && cell->writer != thread && cell->written > known.at[cell->writer])
    return &cell->written_where;
  if (!write) {
    cell->read.at[thread] = known.at[thread];
    cell->read_where[thread] = where;
    return nullptr;
  }
  for (ThreadId other = 0; other < kThreadsMax; ++other)
    if (other != thread && cell->read.at[other] > known.at[other]) return &cell->read_where[other];
  cell->writer = thread;
  cell->written = known.at[thread];
  cell->written_where = where;
  return nullptr;
}

bool Machine::idle(ThreadId thread) {
  Thread& self = threads_[thread];
  Seen seen;
  for (History* history : self.touched)
    seen.emplace_back(history, floor(self, *history, Kind::store, Order::relaxed, true));
  const bool waits = !seen.empty() && (!self.compared || seen == self.previous);
  self.previous = waits ? Seen{} : seen;
  self.awaited = std::move(seen);
  self.touched.clear();
  self.compared = false;
  return waits;
}

void Machine::publish_core(ThreadId from, unsigned core) {
  cores_[core].join(threads_[from].current);
  ++threads_[from].current.clock.at[from];
}

void Machine::learn_core(ThreadId to, unsigned core) {
  threads_[to].current.join(cores_[core]);
  threads_[to].acquired.join(cores_[core]);
}

}  // namespace mortise::model
