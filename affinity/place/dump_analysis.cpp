// What the analysis found, one JSON object a line, without memory: `mortise affinity` reads it.
#include "affinity/place/analysis.hpp"
#include "mortise/os/console.hpp"

namespace mortise::affinity {
namespace {

using Line = os::Line<1024>;

const char* name_of(VariableKind kind) {
  return kind == VariableKind::global ? "global" : kind == VariableKind::stack ? "stack" : "elsewhere";
}
const char* name_of(Why why) {
  constexpr const char* kNames[] = {"none", "type I", "type II", "co-allocated", "plan", "part", "same chain", "one structure", "own part"};
  return kNames[static_cast<unsigned>(why)];
}

Line& field(Line& line, const char* name, std::uint64_t value) { return line.text(",\"").text(name).text("\":").number(value); }
Line& whole(Line& line, const char* name, std::int64_t value) {
  line.text(",\"").text(name).text("\":");
  return value < 0 ? line.put('-').number(static_cast<std::uint64_t>(-value)) : line.number(static_cast<std::uint64_t>(value));
}

}  // namespace

void Analysis::dump(os::Output& out) noexcept {
  Line line;
  line.text("{\"kind\":\"analysis\"");
  field(line, "first", counts_.first), field(line, "first_with_edge", counts_.first_with_edge);
  field(line, "first_into_heap", counts_.first_into[0]), field(line, "first_into_globals", counts_.first_into[1]);
  field(line, "first_into_stack", counts_.first_into[2]);
  field(line, "runs", counts_.runs), field(line, "runs_with_edge", counts_.runs_with_edge);
  field(line, "steps", counts_.steps), field(line, "decoded", code_.decoded());
  field(line, "put_off", counts_.put_off), field(line, "spent_ns", budget_.spent_ns());
  field(line, "flow_instructions", counts_.flow_instructions);
  field(line, "edges", graph_.edges()), field(line, "variables", graph_.variables());
  field(line, "divided_classes", switch_.divided()), field(line, "folded_back", fold_back_.folded());
  field(line, "left_out", graph_.left_out()), field(line, "graph_bytes", graph_.bytes());
  field(line, "form_bytes", sizeof(Code)).text(",\"stops\":{");
  for (unsigned n = 0; n < kStops; ++n)
    line.text(n ? ",\"" : "\"").text(affinity::name_of(static_cast<Stop>(n))).text("\":").number(counts_.stops[n]);
  line.text("}}").flush(out);
  for (NodeId n = 1; n <= last_node(); ++n) {
    const Shape s = shapes_[n];
    line.text("{\"kind\":\"shape\""), field(line, "node", n);
    const std::uint32_t bytes = rules_.size_of(n);
    field(line, "bytes", bytes == AffinityRules::kVaries ? 0 : bytes), field(line, "runs", s.runs), field(line, "steps", s.steps);
    if (s.runs) line.text(",\"stop\":\"").text(affinity::name_of(static_cast<Stop>(s.stop))).put('"');
    line.text(",\"has_edge\":").text(s.has_edge ? "true" : "false"), field(line, "group", rules_.group_of(n)).put('}').flush(out);
  }
  for (std::uint32_t n = 1; n <= graph_.variables(); ++n) {
    const Variable& v = graph_.variable_of(kFirstVariable + n);
    line.text("{\"kind\":\"variable\""), field(line, "id", kFirstVariable + n).text(",\"type\":\"").text(name_of(v.kind));
    field(line.text("\""), "place", v.place), whole(line, "offset", v.offset).put('}').flush(out);
  }
  for (std::uint32_t n = 1; n <= graph_.edges(); ++n) {
    const Edge& e = graph_.edge(n);
    line.text("{\"kind\":\"edge\""), field(line, "from", e.from), field(line, "to", e.to), whole(line, "offset", e.offset);
    field(line, "count", e.count), field(line, "seen", e.seen).put('}').flush(out);
  }
  for (std::uint32_t n = 1; n <= merges_.last(); ++n) {
    line.text("{\"kind\":\"merge\""), field(line, "a", merges_[n].a), field(line, "b", merges_[n].b);
    line.text(",\"why\":\"").text(name_of(merges_[n].why)).text("\"}").flush(out);
  }
}

}  // namespace mortise::affinity
