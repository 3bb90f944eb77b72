// What a report says, and the schedules that it prints and reads.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "explorer/search.hpp"

namespace mortise::model {

namespace {

const char* name_of(Order order) {
  switch (order) {
    case Order::relaxed:
      return "relaxed";
    case Order::acquire:
      return "acquire";
    case Order::release:
      return "release";
    case Order::acq_rel:
      return "acq_rel";
    case Order::seq_cst:
      return "seq_cst";
    default:
      return "consume";
  }
}

const char* file_of(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash ? slash + 1 : path;
}

std::string hex(const Value& value, bool pair) {
  char text[48];
  if (pair)
    std::snprintf(text, sizeof text, "%llx:%llx", (unsigned long long)value.low, (unsigned long long)value.high);
  else std::snprintf(text, sizeof text, "%llx", (unsigned long long)value.low);
  return text;
}

}  // namespace

const char* name_of(Kind kind) {
  constexpr const char* kNames[] = {"load",   "load low half of", "load high half of", "store to", "exchange",
                                    "add to", "subtract from",    "or into",           "and into", "compare-exchange",
                                    "fence",  "wait for",         "barrier",           "restart",  "stands"};
  return kNames[static_cast<unsigned>(kind)];
}

/// "1 0x3 1.2": thread 1, three steps of thread 0, thread 1 with choice 2. In front, if a thread was stopped, "!1@4".
std::string Search::schedule() const {
  std::string text;
  if (frozen_ != kNobody) text = "!" + std::to_string(frozen_) + "@" + std::to_string(frozen_steps_);
  for (std::size_t i = 0; i < steps_.size();) {
    std::size_t same = i + 1;
    while (same < steps_.size() && steps_[same].thread == steps_[i].thread &&
           steps_[same].choice_index == steps_[i].choice_index)
      ++same;
    text += (text.empty() ? "" : " ") + std::to_string(steps_[i].thread);
    if (steps_[i].choice_index) text += "." + std::to_string(steps_[i].choice_index);
    if (same - i > 1) text += "x" + std::to_string(same - i);
    i = same;
  }
  return text.empty() ? "-" : text;
}

bool Search::replay(const std::string& schedule) {
  const char* p = schedule.c_str();
  const auto number = [&p](unsigned& value) {
    char* end = nullptr;
    value = std::strtoul(p, &end, 10);
    const bool read = end != p && *p >= '0' && *p <= '9';
    p = end;
    return read;
  };
  if (*p == '!') {
    ++p;
    if (!number(frozen_) || *p++ != '@' || !number(frozen_steps_)) return false;
  }
  while (*p) {
    if (*p == ' ' || *p == '-') {
      ++p;
      continue;
    }
    unsigned thread = 0, choice = 0, times = 1;
    if (!number(thread)) return false;
    if (*p == '.' && (++p, !number(choice))) return false;
    if (*p == 'x' && (++p, !number(times))) return false;
    given_.insert(given_.end(), times, {thread, choice});
  }
  if (execute_once() == Ended::completed) ++report_.executions;
  report_.steps = report_.longest = steps_.size();
  if (report_.steps_text.empty()) report_.steps_text = describe_steps();
  return true;
}

std::string Search::describe_steps() const {
  std::string text;
  char line[400];
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const Operation& op = step.op;
    int used = std::snprintf(line, sizeof line, "%4zu  thread %u  ", i + 1, step.thread);
    const auto add = [&](const char* format, auto... values) {
      if (used < int(sizeof line)) used += std::snprintf(line + used, sizeof line - used, format, values...);
    };
    if (step.restart) add("sequence aborted before: ");
    add("%s", name_of(op.kind));
    if (op.address) add(" [%+td]", static_cast<const char*>(op.address) - static_cast<const char*>(subject_.base));
    if (op.kind != Kind::await) add(" %s", name_of(op.order));
    if (step.effect.read && op.kind != Kind::await) {
      add(" reads %s%s", hex(step.effect.read->value, op.bytes == 16).c_str(), step.effect.old ? " (old)" : "");
    }
    if (step.effect.written) add(" writes %s", hex(step.effect.written->value, op.bytes == 16).c_str());
    if (op.kind == Kind::compare_exchange && !op.success) add(" fails");
    add("   %s:%u\n", file_of(op.where.file_name()), op.where.line());
    text += line;
  }
  return text;
}

std::string Report::text() const {
  char line[300];
  std::snprintf(line, sizeof line, "%llu executions, %llu pruned, %llu steps, longest %u, %s\n",
                (unsigned long long)executions, (unsigned long long)pruned, (unsigned long long)steps, longest,
                complete ? "exhaustive" : "not exhaustive");
  std::string all = line;
  for (const Bound& bound : bounds) {
    std::snprintf(line, sizeof line, "  %s: at most %u steps (bound %u)\n", bound.name, bound.reached, bound.limit);
    all += line;
  }
  if (!failure.empty())
    all += "failure: " + failure + "\nschedule: MORTISE_MODEL_REPLAY='" + schedule + "'\n" + steps_text;
  return all;
}

}  // namespace mortise::model
