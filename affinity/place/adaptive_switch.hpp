// When affinity keys pay: only where one size class has two or more heavy nodes that do not belong together. Elsewhere the
// pool of the size class is as dense, and costs neither a half-used segment nor a second place to look.
//
//   a node reaches the threshold ─► its class has another group that did? ─► every heavy group of the class gets its own pool
//                                └► no: the pool of the size class
//
// And the rule for pairs: two nodes allocated in turn, of one size class, that are linked, are visited together; one pool gives
// them one line, two pools would tear them apart. Source: co-allocation in HALO [SavageJones20], adapted. Not synchronised.
#pragma once

#include "affinity/place/affinity_rules.hpp"

namespace mortise::affinity {

/// Whether b is allocated right after a and a right after b, three times out of four.
inline bool alternate(const NodeView& a, const NodeView& b) noexcept {
  const auto steady = [](const NodeView& n) { return std::uint64_t{n.alternations} * 4 >= n.objects * 3; };
  return a.id != b.id && a.size_class == b.size_class && a.previous == b.id && b.previous == a.id && steady(a) && steady(b);
}

/// Whether an edge runs between the two, or one object points to both.
inline bool linked(const ShapeGraph& graph, NodeId a, NodeId b) noexcept {
  for (std::uint32_t n = graph.first_to(a); n; n = graph.edge(n).next_to) {
    const GraphNode from = graph.edge(n).from;
    if (from == b) return true;
    if (ShapeGraph::is_variable(from)) continue;
    for (std::uint32_t m = graph.first_to(b); m; m = graph.edge(m).next_to)
      if (graph.edge(m).from == from) return true;
  }
  for (std::uint32_t m = graph.first_to(b); m; m = graph.edge(m).next_to)
    if (graph.edge(m).from == a) return true;
  return false;
}

class AdaptiveSwitch {
 public:
  static constexpr unsigned kClasses = 256;

  /// A node of `size_class` has become heavy. Calls divide(n) for every node that shall have a pool of its own from now on.
  template <class Divide>
  void heavy(AffinityRules& rules, NodeId node, std::uint32_t size_class, Divide&& divide) noexcept {
    if (size_class >= kClasses) return;
    First& first = first_[size_class];
    if (first.node == kNoNode) {
      first.node = node;
      return;
    }
    if (rules.together(first.node, node) && !first.divided) return;
    if (!first.divided) divide(first.node);
    first.divided = true;
    divide(node);
  }
  bool is_divided(std::uint32_t size_class) const noexcept { return size_class < kClasses && first_[size_class].divided; }

 private:
  struct First {
    NodeId node;
    bool divided;
  };
  First first_[kClasses] = {};
};

}  // namespace mortise::affinity
