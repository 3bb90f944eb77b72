// The storage shape graph: which kinds of heap objects are pointed to from where.
//
//      V  variables: globals, slots of stack frames          V ──────► H
//      H  heap nodes: a call chain and a size class          H ─ +8 ─► H     an edge carries the field's offset
//      E  edges: a pointer to an object of `to` was stored at `offset` of an object of `from`
//
// Edges are only ever added. Each is held once and counted. Tables of fixed size lie in pages that are touched as they fill, those by hash
// too: they begin with one page's slots and double. What no longer fits is counted and left out.
//
// Source: [Wang10], after the shape graphs of points-to analysis. Not synchronised: under the lock of the analysis.
#pragma once

#include "affinity/seam.hpp"
#include "mortise/data/preset.hpp"

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
  static constexpr std::uint32_t kEdgesMax = 1u << 15, kVariablesMax = 1u << 13, kSlots = 1u << 16;

  /// The edge's number, 0 if it does not fit; `fresh` tells whether it was not known before. O(1).
  std::uint32_t add(GraphNode from, NodeId to, std::int32_t offset, Seen by, bool& fresh) noexcept;
  /// The node of a variable, made when it is new; 0 if there is no room. O(1).
  GraphNode variable(const Variable& v) noexcept;

  const Edge& edge(std::uint32_t n) const noexcept { return edges_[n]; }
  const Variable& variable_of(GraphNode n) const noexcept { return variables_[n - kFirstVariable]; }
  std::uint32_t first_from(GraphNode n) const noexcept { return from_ ? from_[index_of(n)] : 0; }
  std::uint32_t first_to(NodeId n) const noexcept { return to_ ? to_[n] : 0; }
  std::uint32_t edges() const noexcept { return edge_count_; }          // numbered 1 ..
  std::uint32_t variables() const noexcept { return variable_count_; }  // numbered kFirstVariable + 1 ..
  std::uint32_t left_out() const noexcept { return left_out_; }
  std::size_t bytes() const noexcept;
  static constexpr bool is_variable(GraphNode n) noexcept { return n >= kFirstVariable; }

 private:
  static constexpr std::uint32_t index_of(GraphNode n) noexcept {
    return is_variable(n) ? kNodesMax + (n - kFirstVariable) : n;
  }
  /// Numbers of edges or variables by hash, of which the first `room` slots are in use.
  struct Slots {
    static constexpr std::uint32_t kFirst = 1u << 10;
    std::uint32_t* at = nullptr;
    Preset<kFirst> room;

    /// The next number, `count`, goes to `slot`; twice the room where half of it is taken. O(1), amortised.
    template <class HashOf> void put(std::uint32_t& slot, std::uint32_t count, HashOf&& hash_of) noexcept;
  };
  bool prepare() noexcept;

  Edge* edges_ = nullptr;
  Variable* variables_ = nullptr;
  Slots edge_slots_, variable_slots_;
  std::uint32_t *from_ = nullptr, *to_ = nullptr;
  std::uint32_t edge_count_ = 0, variable_count_ = 0, left_out_ = 0;
};

}  // namespace mortise::affinity
