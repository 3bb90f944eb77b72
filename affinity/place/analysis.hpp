// What the analysis makes of a sampled object: edges of the graph, merges of nodes, and which of them get pools of their own.
//
//   object 24, 32 of a node ─► interpreter ─┐
//   object 24 ───────────────► data flow ───┴─► stores ─► edges ─► rules ─► unite
//   threshold reached ──────────► pairs, adaptive switch, half-empty pools ─────► unite, divide_from_size_class, fold_back
//
// Runs inside malloc, under the analysis lock; bounded.
#pragma once

#include "affinity/graph/data_flow.hpp"
#include "affinity/graph/shape_graph.hpp"
#include "affinity/observe/interpret.hpp"
#include "affinity/place/adaptive_switch.hpp"
#include "affinity/place/budget.hpp"
#include "affinity/place/fold_back.hpp"
#include "affinity/place/own_parts.hpp"

namespace mortise::affinity {

class Analysis {
 public:
  static constexpr std::uint32_t kMergesMax = 4095;
  static constexpr unsigned kSteps = 200;  ///< of a sample: what follows hardly adds an edge, and no merge (docs/affinity.md)

  struct Merge {
    NodeId a, b;
    Why why;
  };
  /// What became of a node's first analysis.
  struct Shape {
    std::uint16_t steps;
    std::uint8_t runs, stop;
    bool has_edge;
    bool is_known;  // a later sample told nothing new
  };
  struct Counts {
    std::uint64_t runs, runs_with_edge, first, first_with_edge, steps, flow_instructions;
    std::uint64_t first_into[3];  // heap, globals, stack
    std::uint64_t stops[kStops];
    std::uint64_t put_off;  // samples that were not looked at: they would have cost too much
  };

  void observe(const NodeView& node, void* object, std::size_t size, const Resume& resume) noexcept;
  void count(NodeId node, std::size_t size) noexcept;
  void decide(const NodeView& node) noexcept;
  /// Its pool has grown; `bytes` of it, full of objects, lie at `full`.
  void look_into(const NodeView& node, std::uintptr_t full, std::size_t bytes) noexcept;
  /// Code is gone, and other code may come to lie there.
  void forget_code() noexcept { code_.forget(); }
  void dump(os::Output& out) noexcept;

 private:
  // Turns stores into edges; bits: 1 into the heap, 2 into a global, 4 into a stack slot.
  template <class Source> unsigned edges_of(const Source& source, const NodeView& node, const Start& start, Seen by) noexcept;
  unsigned edge_of(const Store& store, const NodeView& node, const Start& start, Seen by) noexcept;
  GraphNode variable_at(std::uintptr_t address, const Start& start) noexcept;
  void add(GraphNode from, NodeId to, std::int32_t offset, Seen by) noexcept;
  void join_sizes_of(const NodeView& node) noexcept;
  void join_structure_of(const NodeView& node) noexcept;
  void merge(NodeId a, NodeId b, Why why) noexcept;

  Code code_;
  Interpreter interpreter_;
  DataFlow flow_;
  ShapeGraph graph_;
  AffinityRules rules_;
  AdaptiveSwitch switch_;
  FoldBack fold_back_;
  Budget budget_;
  PerNode<Shape> shapes_;
  Records<Merge, 6, (kMergesMax + 1) / 64> merges_;
  Counts counts_ = {};
};

}  // namespace mortise::affinity
