// When affinity keys pay: only where one size class has two or more heavy nodes that do not belong together.
//
//   a node reaches the threshold ─► nobody of its class did: it takes the pool of the class for itself
//                                ├► another did, of its group: that one's pool
//                                └► another group: a pool of its own. From here on the class is divided.
//
// So a class with one heavy group has one pool, as if pools were chosen by size class alone, and its objects can still be told
// from others': what is allocated later is recognised by what it is linked to.
//
// And the rule for pairs: two nodes allocated in turn, of one size class, that are linked, are visited together; one pool gives
// them one line, two pools would tear them apart. An object and its part of another size, likewise: one pool of mixed sizes.
// And for structures: two nodes of one exact size, one of which leads to the other through a third, are one type of object, allocated
// in the order in which it will be visited; pools of their own would make two streams of one.
// Source: co-allocation in HALO [SavageJones20], adapted. Not synchronised.
#pragma once

#include "affinity/place/affinity_rules.hpp"

namespace mortise::affinity {

/// Whether its objects came after those of one other node, three times out of four; of the first sixteen nobody knows.
inline bool is_steady(const NodeView& n) noexcept {
  constexpr std::uint64_t kUnseen = 16;
  return n.objects > kUnseen && std::uint64_t{n.alternations} * 4 >= (n.objects - kUnseen) * 3;
}

/// Whether b is allocated right after a and a right after b, three times out of four.
inline bool alternate(const NodeView& a, const NodeView& b) noexcept {
  return a.id != b.id && a.size_class == b.size_class && a.previous == b.id && b.previous == a.id && is_steady(a) && is_steady(b);
}

/// Whether b, of another size class, is allocated right after a, three times out of four that either is: an object and its part.
inline bool accompanies(const NodeView& b, const NodeView& a) noexcept {
  return a.size_class != b.size_class && b.previous == a.id && is_steady(b) && std::uint64_t{b.objects} * 4 >= a.objects * 3;
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

/// The node through which a leads to b, a ─► it ─► b, of those that `may_lead`: a text names its attribute, and that its element. An owner
/// of both does not count: what hangs on it may be two structures. kNoNode if there is none.
template <class MayLead> NodeId between(const ShapeGraph& graph, NodeId a, NodeId b, MayLead&& may_lead) noexcept {
  for (std::uint32_t n = graph.first_from(a); n; n = graph.edge(n).next_from) {
    const NodeId middle = graph.edge(n).to;
    if (middle == a || middle == b || !may_lead(middle)) continue;
    for (std::uint32_t m = graph.first_from(middle); m; m = graph.edge(m).next_from)
      if (graph.edge(m).to == b) return middle;
  }
  return kNoNode;
}

class AdaptiveSwitch {
 public:
  static constexpr unsigned kClasses = 256;

  /// A node of `size_class` has become heavy. The class is divided once that is so of a second group.
  void heavy(AffinityRules& rules, NodeId node, std::uint32_t size_class) noexcept {
    if (size_class >= kClasses) return;
    First& first = first_[size_class];
    if (first.node == kNoNode) first.node = node;
    if (!rules.together(first.node, node)) first.divided = true;
  }
  /// How many classes have two heavy groups or more.
  unsigned divided() const noexcept {
    unsigned count = 0;
    for (const First& f : first_) count += f.divided;
    return count;
  }

 private:
  struct First {
    NodeId node;
    bool divided;
  };
  First first_[kClasses] = {};
};

}  // namespace mortise::affinity
