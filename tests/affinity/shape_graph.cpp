// If this fails, an edge or a variable is counted twice or taken for another, and the rules judge a graph that nobody saw.
#include "affinity/graph/shape_graph.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <set>
#include <tuple>

namespace mortise::affinity {
namespace {

TEST(ShapeGraph, HoldsEachEdgeAndVariableOnceUpToItsLimits) {
  const auto graph = std::make_unique<ShapeGraph>();
  std::mt19937 random(1);
  std::map<std::tuple<GraphNode, NodeId, std::int32_t>, std::uint32_t> edges;
  std::map<std::pair<std::uintptr_t, std::int32_t>, GraphNode> variables;
  for (unsigned i = 0; i < 200'000; ++i) {
    const std::uintptr_t place = random() % 120 * 8;
    const auto slot = static_cast<std::int32_t>(random() % 120) * 8;
    const GraphNode v = graph->variable({place, slot, VariableKind::stack});
    const auto known = variables.find({place, slot});
    if (known != variables.end()) {
      ASSERT_EQ(v, known->second);
    } else if (variables.size() < ShapeGraph::kVariablesMax) {
      ASSERT_EQ(v, kFirstVariable + variables.size() + 1) << "numbers are dense";
      variables[{place, slot}] = v;
    } else {
      ASSERT_EQ(v, 0u);
    }
    const GraphNode from = random() % 2 && v ? v : 1 + random() % 300;
    const NodeId to = 1 + random() % 300;
    const auto offset = static_cast<std::int32_t>(random() % 4) * 8;
    bool fresh;
    const std::uint32_t e = graph->add(from, to, offset, Seen::interpreter, fresh);
    const auto [there, is_new] = edges.try_emplace({from, to, offset}, static_cast<std::uint32_t>(edges.size() + 1));
    if (is_new && edges.size() > ShapeGraph::kEdgesMax) {
      ASSERT_EQ(e, 0u);
      edges.erase(there);
    } else {
      ASSERT_EQ(e, there->second);
    }
    ASSERT_EQ(fresh, is_new && e);
  }
  EXPECT_EQ(graph->edges(), ShapeGraph::kEdgesMax);
  EXPECT_EQ(graph->variables(), ShapeGraph::kVariablesMax);
  EXPECT_GT(graph->left_out(), 0u);
  std::set<std::uint32_t> met;
  for (GraphNode from = 1; from <= 300; ++from)
    for (std::uint32_t n = graph->first_from(from); n; n = graph->edge(n).next_from) {
      EXPECT_EQ(graph->edge(n).from, from);
      EXPECT_TRUE(met.insert(n).second);
    }
  for (const auto& [key, number] : edges) EXPECT_EQ(met.count(number), !ShapeGraph::is_variable(std::get<0>(key)));
}

}  // namespace
}  // namespace mortise::affinity
