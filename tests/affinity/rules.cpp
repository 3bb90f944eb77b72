// If this fails, objects share a pool that do not belong together, or a structure stays spread over the pools of the places
// that inlining copied its allocation to.
#include "affinity/place/affinity_rules.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <tuple>
#include <vector>

namespace mortise::affinity {
namespace {

struct Merge {
  NodeId a, b;
  Why why;
  bool operator==(const Merge&) const = default;
};

struct World {
  ShapeGraph graph;
  AffinityRules rules;
  std::vector<Merge> merges;
  NodeId first_of_another_function = ~0u;

  void size(NodeId n, std::uint32_t bytes) { rules.sized(n, bytes); }
  void edge(GraphNode from, NodeId to, std::int32_t offset) {
    bool fresh;
    const std::uint32_t n = graph.add(from, to, offset, Seen::interpreter, fresh);
    const auto one_function = [&](NodeId a, NodeId b) { return (a < first_of_another_function) == (b < first_of_another_function); };
    if (fresh) rules.consider(graph, n, one_function, [&](NodeId a, NodeId b, Why why) { merges.push_back({a, b, why}); });
  }
};

class Rules : public testing::Test {
 protected:
  std::unique_ptr<World> world_ = std::make_unique<World>();
  World& w = *world_;
};

TEST_F(Rules, TypeOneJoinsARecursiveStructure) {
  for (NodeId n = 1; n <= 15; ++n) w.size(n, 32);
  for (NodeId n = 1; n < 15; ++n) w.edge(n, n + 1, n % 2 ? 0 : 8);  // an allocating recursion that was unrolled fifteen times
  EXPECT_EQ(w.merges.size(), 14u);
  for (NodeId n = 2; n <= 15; ++n) EXPECT_TRUE(w.rules.together(1, n));
  for (const Merge& m : w.merges) EXPECT_EQ(m.why, Why::type_one);
}

TEST_F(Rules, TypeTwoJoinsWhatOneFieldPointsTo) {
  w.size(1, 48), w.size(2, 24), w.size(3, 24), w.size(4, 24), w.size(5, 32);
  w.edge(1, 2, 8);
  w.edge(1, 3, 16);  // another field
  EXPECT_TRUE(w.merges.empty());
  w.edge(1, 4, 8);
  w.edge(1, 5, 8);  // another size
  ASSERT_EQ(w.merges.size(), 1u);
  EXPECT_EQ(w.merges[0].why, Why::type_two);
  EXPECT_TRUE(w.rules.together(2, 4));
  EXPECT_FALSE(w.rules.together(2, 3));
  EXPECT_FALSE(w.rules.together(4, 5));
}

TEST_F(Rules, TypeTwoFromOneNodeJoinsWhatOneFunctionAllocates) {
  w.first_of_another_function = 4;
  w.size(1, 48), w.size(2, 80), w.size(3, 80), w.size(4, 80), w.size(5, 48), w.size(6, 80);
  w.edge(1, 2, 16), w.edge(1, 3, 16), w.edge(1, 4, 16);
  EXPECT_TRUE(w.rules.together(2, 3));
  EXPECT_FALSE(w.rules.together(2, 4)) << "names and texts, made by two functions: who visits names need not visit texts";
  w.edge(5, 6, 16), w.edge(1, 5, 0);
  EXPECT_TRUE(w.rules.together(2, 6)) << "the field of another copy of the node";
}

TEST_F(Rules, TypeTwoReachesThroughTypeOne) {
  w.size(1, 48), w.size(2, 48), w.size(3, 24), w.size(4, 24);
  w.edge(1, 3, 8);
  w.edge(2, 4, 8);
  EXPECT_FALSE(w.rules.together(3, 4));
  w.edge(1, 2, 0);  // one structure after all: so its fields are
  EXPECT_TRUE(w.rules.together(1, 2));
  EXPECT_TRUE(w.rules.together(3, 4));
}

TEST_F(Rules, TypeTwoIsNotReachedThroughTypeTwo) {
  w.size(1, 64), w.size(2, 48), w.size(3, 48), w.size(4, 24), w.size(5, 24);
  w.edge(1, 2, 0), w.edge(1, 3, 0);
  ASSERT_TRUE(w.rules.together(2, 3));
  w.edge(2, 4, 8), w.edge(3, 5, 8);
  EXPECT_FALSE(w.rules.together(4, 5)) << "2 and 3 are alike, but not one recursive structure";
}

TEST_F(Rules, SizesThatDifferOrAreLargeJoinNothing) {
  w.size(1, 32), w.size(2, 32), w.size(2, 31), w.size(3, 256), w.size(4, 256);
  w.edge(1, 2, 0), w.edge(3, 4, 0), w.edge(5, 6, 0);
  EXPECT_TRUE(w.merges.empty());
  EXPECT_EQ(w.rules.size_of(2), AffinityRules::kVaries);
}

TEST_F(Rules, VariablesRelateNothing) {
  w.size(1, 32), w.size(2, 32);
  const GraphNode global = w.graph.variable({0x1000, 0, VariableKind::global});
  EXPECT_EQ(global, w.graph.variable({0x1000, 0, VariableKind::global}));
  EXPECT_NE(global, w.graph.variable({0x1000, 8, VariableKind::stack}));
  w.edge(global, 1, 0), w.edge(global, 2, 0);
  EXPECT_TRUE(w.merges.empty()) << "a variable is used for one thing after another";
}

TEST_F(Rules, EdgesAreHeldOnceAndCounted) {
  w.size(1, 32), w.size(2, 32);
  for (int i = 0; i < 5; ++i) w.edge(1, 2, 8);
  EXPECT_EQ(w.graph.edges(), 1u);
  EXPECT_EQ(w.graph.edge(1).count, 5u);
  EXPECT_EQ(w.merges.size(), 1u);
}

// What the rules say, computed the slow way from all edges at once.
struct Oracle {
  explicit Oracle(unsigned nodes) : one(nodes + 1), all(nodes + 1) {
    for (unsigned i = 0; i <= nodes; ++i) one[i] = all[i] = i;
  }
  static unsigned find(std::vector<unsigned>& p, unsigned n) { return p[n] == n ? n : find(p, p[n]); }
  static void join(std::vector<unsigned>& p, unsigned a, unsigned b) { p[find(p, a)] = find(p, b); }
  std::vector<unsigned> one, all;
};

TEST_F(Rules, AgreeWithTheSlowWayInAnyOrder) {
  constexpr unsigned kNodes = 40;
  for (unsigned seed = 1; seed <= 60; ++seed) {
    world_ = std::make_unique<World>();
    World& v = *world_;
    std::mt19937 random(seed);
    std::vector<std::uint32_t> sizes(kNodes + 1);
    for (NodeId n = 1; n <= kNodes; ++n) v.size(n, sizes[n] = 16 + 8 * (random() % 4));
    std::vector<std::tuple<NodeId, NodeId, int>> edges;
    for (unsigned i = 0; i < 10 + seed; ++i) edges.emplace_back(1 + random() % kNodes, 1 + random() % kNodes, 8 * (random() % 3));
    for (const auto& [from, to, offset] : edges) v.edge(from, to, offset);
    Oracle oracle(kNodes);
    for (const auto& [from, to, offset] : edges)
      if (sizes[from] == sizes[to]) Oracle::join(oracle.one, from, to), Oracle::join(oracle.all, from, to);
    for (const auto& [f, t, o] : edges)
      for (const auto& [g, u, p] : edges)
        if (o == p && sizes[t] == sizes[u] && Oracle::find(oracle.one, f) == Oracle::find(oracle.one, g)) Oracle::join(oracle.all, t, u);
    for (NodeId a = 1; a <= kNodes; ++a)
      for (NodeId b = 1; b <= kNodes; ++b)
        ASSERT_EQ(v.rules.together(a, b), Oracle::find(oracle.all, a) == Oracle::find(oracle.all, b))
            << "seed " << seed << ": nodes " << a << " and " << b;
    // The ring of a group holds its members and no other.
    for (NodeId a = 1; a <= kNodes; ++a) {
      unsigned members = 0, alike = 0;
      NodeId m = a;
      do { ASSERT_TRUE(v.rules.together(a, m)); ++members; } while ((m = v.rules.next_in_group(m)) != a);
      for (NodeId b = 1; b <= kNodes; ++b) alike += v.rules.together(a, b);
      ASSERT_EQ(members, alike);
    }
  }
}

}  // namespace
}  // namespace mortise::affinity
