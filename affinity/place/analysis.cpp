#include "affinity/place/analysis.hpp"

#include <dlfcn.h>
#include <string.h>

#include "affinity/options.hpp"
#include "affinity/seam.hpp"

namespace mortise::affinity {
namespace {

constexpr std::uintptr_t kStackBytes = 8 << 20;

Start start_of(void* object, std::size_t size, const Resume& resume) {
  Start s{resume.pc, {}, reinterpret_cast<std::uintptr_t>(object), size ? size : 1};
  constexpr std::uint8_t kCalleeSaved[6] = {kRbx, kRbp, 12, 13, 14, 15};
  for (unsigned i = 0; i < 6; ++i)
    if (resume.known >> i & 1) s.general[kCalleeSaved[i]] = Value::of(resume.callee_saved[i]);
  s.general[kRsp] = Value::of(resume.sp);
  s.general[kRax] = {s.object, true, true};
  return s;
}

bool is_of_module(std::uintptr_t address) {
  dl_find_object found;
  return _dl_find_object(reinterpret_cast<void*>(address), &found) == 0;
}

}  // namespace

GraphNode Analysis::variable_at(std::uintptr_t address, const Start& start) noexcept {
  const std::uintptr_t sp = start.general[kRsp].bits;
  if (address >= sp && address - sp < kStackBytes)
    return graph_.variable({start.pc, static_cast<std::int32_t>(address - sp), VariableKind::stack});
  if (is_of_module(address)) return graph_.variable({address, 0, VariableKind::global});
  return graph_.variable({0, 0, VariableKind::elsewhere});
}

void Analysis::merge(NodeId a, NodeId b, Why why) noexcept {
  if (const std::uint32_t n = merges_.add()) merges_[n] = {a, b, why};
  unite(a, b, why);
}

void Analysis::add(GraphNode from, NodeId to, std::int32_t offset, Seen by) noexcept {
  bool fresh;
  const std::uint32_t edge = graph_.add(from, to, offset, by, fresh);
  if (!fresh) return;
  const auto one_function = [](NodeId a, NodeId b) {
    const std::uintptr_t first = function_of(a), second = function_of(b);
    return first == second || !first || !second;
  };
  rules_.consider(graph_, edge, one_function, [&](NodeId a, NodeId b, Why why) { merge(a, b, why); });
}

unsigned Analysis::edge_of(const Store& store, const NodeView& node, const Start& start, Seen by) noexcept {
  const auto within = [&](std::uint64_t address) { return address - start.object < start.size; };
  const auto offset_in = [](std::uintptr_t address) { return static_cast<std::int32_t>(address - object_of(address)); };
  const NodeId to = store.derived ? node.id : node_of(store.value);
  if (to == kNoNode) return 0;
  if (within(store.address)) {
    if (!store.derived) add(node.id, to, static_cast<std::int32_t>(store.address - start.object), by);
    return store.derived ? 0 : 1;  // a pointer to itself says nothing of others
  }
  if (const NodeId from = node_of(store.address)) {
    add(from, to, offset_in(store.address), by);
    return 1;
  }
  if (!store.derived) return 0;
  const GraphNode v = variable_at(store.address, start);
  if (!v) return 0;
  add(v, to, 0, by);
  const VariableKind kind = graph_.variable_of(v).kind;
  return kind == VariableKind::elsewhere ? 1 : kind == VariableKind::global ? 2 : 4;
}

template <class Source>
unsigned Analysis::edges_of(const Source& source, const NodeView& node, const Start& start, Seen by) noexcept {
  unsigned into = 0;
  for (unsigned n = 0; n < source.stores(); ++n) into |= edge_of(source.stored(n), node, start, by);
  return into;
}

void Analysis::observe(const NodeView& node, void* object, std::size_t size, const Resume& resume) noexcept {
  Shape* const known = node.id < kNodesMax ? shapes_.at(node.id) : nullptr;
  if (!known || known->is_known) return;
  Shape& shape = *known;
  if (!budget_.allows(node.objects, looked_up())) return void(++counts_.put_off);
  budget_.begin();
  if (!is_of_module(resume.pc)) code_.forget();
  const std::uint32_t edges_before = graph_.edges();
  const std::uint64_t decoded_before = code_.decoded();
  const Start start = start_of(object, size, resume);
  const Outcome outcome = interpreter_.run(code_, start, this, kSteps);
  unsigned into = edges_of(interpreter_.machine(), node, start, Seen::interpreter);
  unsigned looked_at = outcome.steps;
  if (shape.runs == 0) {
    const unsigned flow = flow_.run(code_, interpreter_.machine().memory().real(), start);
    looked_at += flow;
    counts_.flow_instructions += flow;
    into |= edges_of(flow_, node, start, Seen::data_flow);
    shape.steps = static_cast<std::uint16_t>(outcome.steps);
    shape.stop = static_cast<std::uint8_t>(outcome.stop);
    shape.has_edge = into != 0;
    ++counts_.first;
    counts_.first_with_edge += into != 0;
    for (unsigned n = 0; n < 3; ++n) counts_.first_into[n] += into >> n & 1;
  }
  shape.is_known = shape.runs > 0 && graph_.edges() == edges_before;
  if (shape.runs < 255) ++shape.runs;
  ++counts_.runs;
  counts_.runs_with_edge += into != 0;
  counts_.steps += outcome.steps;
  ++counts_.stops[static_cast<unsigned>(outcome.stop)];
  budget_.end(looked_at, code_.decoded() - decoded_before);
}

void Analysis::count(NodeId node, std::size_t size) noexcept {
  if (node < kNodesMax) rules_.sized(node, size < ~0u - 1 ? static_cast<std::uint32_t>(size) : ~0u - 1);
}

/// All that one chain of calls asks for, whatever its size. O(nodes).
void Analysis::join_sizes_of(const NodeView& node) noexcept {
  for (NodeId n = 1; n <= last_node(); ++n) {
    const NodeView other = view(n);
    if (n == node.id || !other.pool || other.chain_length != node.chain_length) continue;
    if (memcmp(other.chain, node.chain, node.chain_length * sizeof *node.chain) != 0) continue;
    if (rules_.unite(n, node.id)) return merge(n, node.id, Why::same_chain);
  }
}

/// Nodes of one exact size of which one leads to the other through a third, of which there are many as well. O(nodes) where it has edges,
/// and the budget bounds how many have: a program may have tens of thousands of nodes.
void Analysis::join_structure_of(const NodeView& node) noexcept {
  const std::uint32_t size = rules_.size_of(node.id);
  if (size == 0 || size == AffinityRules::kVaries || (!graph_.first_from(node.id) && !graph_.first_to(node.id))) return;
  const auto are_many = [&](NodeId middle) { return view(middle).objects * 4 >= node.objects; };
  for (NodeId n = 1; n <= last_node() && n < kNodesMax; ++n) {
    if (n == node.id || rules_.size_of(n) != size || !view(n).pool) continue;
    if (!between(graph_, n, node.id, are_many) && !between(graph_, node.id, n, are_many)) continue;
    if (rules_.unite(n, node.id)) merge(n, node.id, Why::one_structure);
  }
}

void Analysis::look_into(const NodeView& node, std::uintptr_t full, std::size_t bytes) noexcept {
  const NodeId part = OwnParts::part_of(node, full, bytes);
  if (part && rules_.unite(part, node.id)) merge(part, node.id, Why::own_part);
}

void Analysis::decide(const NodeView& node) noexcept {
  if (node.id >= kNodesMax) return;
  if (node.previous) {
    const NodeView before = view(node.previous);
    if (alternate(node, before) && linked(graph_, node.id, before.id) && rules_.unite(node.id, before.id))
      merge(node.id, before.id, Why::co_allocated);
    if (mixing() != Mixing::off && accompanies(node, before) && linked(graph_, node.id, before.id) && rules_.unite(node.id, before.id))
      merge(before.id, node.id, Why::part);
  }
  join_structure_of(node);
  if (mixing() == Mixing::chains) join_sizes_of(node);
  switch_.heavy(rules_, node.id, node.size_class);
  if (!view(node.id).pool) fold_back_.made_pool([](NodeId n) { fold_back(n); });
  divide_from_size_class(node.id);
}

}  // namespace mortise::affinity
