// Which heap nodes belong together, read off the storage shape graph.
//
//   type I    an edge between two nodes of the same size: a recursive structure whose allocation sites were copied by inlining
//             or unrolling. Transitive.                                  A ─next─► B ─next─► A          A, B together
//   type II   edges at the same offset, from one node or from nodes related by type I, to nodes of the same size: what one
//             field points to is of one type.                            P ─+8─► A,  P ─+8─► B          A, B together
//             From one node, only where that function allocates both: a field that holds what two functions make holds two kinds
//             of one type, and who visits one kind need not visit the other.
//
// "The same size" is the exact size of every object of a node so far; nodes whose objects differ (strings, buffers) have none.
//
// Source: affinity of types I and II [Wang10]. O(out-edges of the classes that meet) an edge. Not synchronised.
#pragma once

#include "affinity/graph/shape_graph.hpp"

namespace mortise::affinity {

/// Classes of nodes that were united: union by the smaller number, members in a ring.
class Classes {
 public:
  NodeId leader(NodeId n) noexcept;
  /// False if they were united before.
  bool unite(NodeId a, NodeId b) noexcept;
  NodeId next(NodeId n) const noexcept { return links_[n].next ? links_[n].next : n; }  // ends where it began

 private:
  struct Links {
    NodeId parent, next;  // 0: alone
  };
  PerNode<Links> links_;
};

class AffinityRules {
 public:
  /// Larger objects are never merged by these rules, and pooled only where `affinity_bytes` says so.
  static constexpr std::uint32_t kSizeMax = 128;
  static constexpr std::uint32_t kVaries = ~0u;

  /// Tells of one more object's size.
  void sized(NodeId n, std::uint32_t bytes) noexcept;
  /// 0 before the first, kVaries if they differ.
  std::uint32_t size_of(NodeId n) const noexcept { return sizes_[n]; }

  /// Draws the consequences of a new edge: calls merged(a, b, why) for every two nodes that now belong together and did not.
  /// one_function(a, b): whether both are allocated by one function, as far as that is known.
  template <class OneFunction, class Merged>
  void consider(const ShapeGraph& graph, std::uint32_t edge, OneFunction&& one_function, Merged&& merged) noexcept;
  /// Unites for another reason (co-allocation, a plan). False if they were.
  bool unite(NodeId a, NodeId b) noexcept { return groups_.unite(a, b); }
  bool together(NodeId a, NodeId b) noexcept { return groups_.leader(a) == groups_.leader(b); }
  NodeId group_of(NodeId n) noexcept { return groups_.leader(n); }
  NodeId next_in_group(NodeId n) const noexcept { return groups_.next(n); }

 private:
  bool same_size(NodeId a, NodeId b) const noexcept {
    return size_of(a) == size_of(b) && size_of(a) != 0 && size_of(a) <= kSizeMax;
  }
  // What the fields of b's class point to at the offset of one edge of a's class.
  template <class OneFunction, class Merged>
  void alike(const ShapeGraph& graph, NodeId b, const Edge& e, OneFunction&& one_function, Merged&& merged) noexcept;

  Classes groups_;    // by any reason
  Classes related_;   // by type I alone
  PerNode<std::uint32_t> sizes_;
};

template <class OneFunction, class Merged>
void AffinityRules::alike(const ShapeGraph& graph, NodeId b, const Edge& e, OneFunction&& one_function, Merged&& merged) noexcept {
  NodeId member = b;
  do {
    for (std::uint32_t n = graph.first_from(member); n; n = graph.edge(n).next_from) {
      const Edge& other = graph.edge(n);
      if (other.offset != e.offset || other.to == e.to || !same_size(other.to, e.to)) continue;
      if (member == e.from && !one_function(other.to, e.to)) continue;
      if (groups_.unite(other.to, e.to)) merged(other.to, e.to, Why::type_two);
    }
    member = related_.next(member);
  } while (member != b);
}

template <class OneFunction, class Merged>
void AffinityRules::consider(const ShapeGraph& graph, std::uint32_t edge, OneFunction&& one_function, Merged&& merged) noexcept {
  const Edge e = graph.edge(edge);
  if (ShapeGraph::is_variable(e.from) || edge == 0) return;
  if (e.from != e.to && same_size(e.from, e.to) && related_.leader(e.from) != related_.leader(e.to)) {
    if (groups_.unite(e.from, e.to)) merged(e.from, e.to, Why::type_one);
    // Two classes meet: what their fields at the same offset point to is alike as well.
    NodeId member = e.from;
    do {
      for (std::uint32_t n = graph.first_from(member); n; n = graph.edge(n).next_from)
        alike(graph, e.to, graph.edge(n), one_function, merged);
      member = related_.next(member);
    } while (member != e.from);
    related_.unite(e.from, e.to);
  }
  alike(graph, e.from, e, one_function, merged);
}

}  // namespace mortise::affinity
