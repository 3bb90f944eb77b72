// The storage shape graph: which kinds of heap objects are pointed to from where.
//
//      V  variables: globals, slots of stack frames          V ──────► H
//      H  heap nodes: a call chain and a size class          H ─ +8 ─► H     an edge carries the field's offset
//      E  edges: a pointer to an object of `to` was stored at `offset` of an object of `from`
//
// Edges are only ever added. Each is held once and counted. What no longer fits is counted and left out.
//
// Source: [Wang10], after the shape graphs of points-to analysis. Not synchronised: under the lock of the analysis.
#pragma once

#include "affinity/tables.hpp"

namespace mortise::affinity {

/// A node of the graph: heap nodes are their NodeId, variables count from kFirstVariable on.
using GraphNode = std::uint32_t;
inline constexpr GraphNode kFirstVariable = 1u << 16;

enum class VariableKind : std::uint8_t {
  global,     // place: its address
  stack,      // place: the code address at which the frame was seen; offset from the stack pointer there
  elsewhere,  // memory that belongs to no node: larger blocks, mapped pages
};

struct Variable {
  std::uintptr_t place;
  std::int32_t offset;
  VariableKind kind;
};

enum class Seen : std::uint8_t { interpreter = 1, data_flow = 2 };

struct Edge {
  GraphNode from;
  NodeId to;
  std::int32_t offset;
  std::uint32_t count;
  std::uint32_t next_from, next_to;  // edges of the same source, of the same target; 0 ends
  std::uint8_t seen;                 // by whom, bits of Seen
};

class ShapeGraph {
 public:
  static constexpr std::uint32_t kEdgesMax = (1u << 15) - 1, kVariablesMax = (1u << 13) - 1;

  /// The edge's number, 0 if it does not fit; `fresh` tells whether it was not known before. O(1), amortised.
  std::uint32_t add(GraphNode from, NodeId to, std::int32_t offset, Seen by, bool& fresh) noexcept;
  /// The node of a variable, made when it is new; 0 if there is no room. O(1), amortised.
  GraphNode variable(const Variable& v) noexcept;

  const Edge& edge(std::uint32_t n) const noexcept { return edges_[n]; }
  const Variable& variable_of(GraphNode n) const noexcept { return variables_[n - kFirstVariable].is; }
  std::uint32_t first_from(GraphNode n) const noexcept {
    return is_variable(n) ? variables_[n - kFirstVariable].first_from : ends_[n].first_from;
  }
  std::uint32_t first_to(NodeId n) const noexcept { return ends_[n].first_to; }
  std::uint32_t edges() const noexcept { return edges_.last(); }          // numbered 1 ..
  std::uint32_t variables() const noexcept { return variables_.last(); }  // numbered kFirstVariable + 1 ..
  std::uint32_t left_out() const noexcept { return left_out_; }
  std::size_t bytes() const noexcept;
  static constexpr bool is_variable(GraphNode n) noexcept { return n >= kFirstVariable; }

 private:
  struct Known {
    Variable is;
    std::uint32_t first_from;
  };
  struct Ends {
    std::uint32_t first_from, first_to;
  };
  std::uint32_t* first_from_of(GraphNode n) noexcept;

  Records<Edge, 7, (kEdgesMax + 1) / 128> edges_;
  Records<Known, 6, (kVariablesMax + 1) / 64> variables_;
  Index edges_by_key_, variables_by_place_;
  PerNode<Ends> ends_;
  std::uint32_t left_out_ = 0;
};

}  // namespace mortise::affinity
