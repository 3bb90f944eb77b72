#include "affinity/graph/shape_graph.hpp"

namespace mortise::affinity {
namespace {

constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t h = (a ^ b * 0x9e3779b97f4a7c15ull) * 0xff51afd7ed558ccdull;
  return h ^ h >> 32;
}

constexpr std::uint64_t hash_of(const Variable& v) {
  return mix(v.place, static_cast<std::uint32_t>(v.offset) | static_cast<std::uint64_t>(v.kind) << 32);
}
constexpr std::uint64_t hash_of(GraphNode from, NodeId to, std::int32_t offset) {
  return mix(from, to | static_cast<std::uint64_t>(static_cast<std::uint32_t>(offset)) << 32);
}

}  // namespace

GraphNode ShapeGraph::variable(const Variable& v) noexcept {
  const auto is_same = [&](std::uint32_t n) {
    const Variable& there = variables_[n].is;
    return there.place == v.place && there.offset == v.offset && there.kind == v.kind;
  };
  if (const std::uint32_t n = variables_by_place_.find(hash_of(v), is_same)) return kFirstVariable + n;
  const std::uint32_t n = variables_.add();
  if (!n) return ++left_out_, 0;
  variables_[n].is = v;
  const auto rehash = [&](std::uint32_t known) { return hash_of(variables_[known].is); };
  return variables_by_place_.add(hash_of(v), n, rehash) ? kFirstVariable + n : 0;
}

std::uint32_t* ShapeGraph::first_from_of(GraphNode n) noexcept {
  if (is_variable(n)) return &variables_[n - kFirstVariable].first_from;
  Ends* const ends = ends_.at(n);
  return ends ? &ends->first_from : nullptr;
}

std::uint32_t ShapeGraph::add(GraphNode from, NodeId to, std::int32_t offset, Seen by, bool& fresh) noexcept {
  fresh = false;
  if (to == kNoNode || to >= kNodesMax || from == 0) return 0;
  const auto is_same = [&](std::uint32_t n) { return edges_[n].from == from && edges_[n].to == to && edges_[n].offset == offset; };
  if (const std::uint32_t n = edges_by_key_.find(hash_of(from, to, offset), is_same)) {
    ++edges_[n].count;
    edges_[n].seen |= static_cast<std::uint8_t>(by);
    return n;
  }
  std::uint32_t* const first_from = first_from_of(from);
  Ends* const ends = ends_.at(to);
  const std::uint32_t n = first_from && ends ? edges_.add() : 0;
  if (!n) return ++left_out_, 0;
  edges_[n] = {from, to, offset, 1, *first_from, ends->first_to, static_cast<std::uint8_t>(by)};
  const auto rehash = [&](std::uint32_t known) { return hash_of(edges_[known].from, edges_[known].to, edges_[known].offset); };
  if (!edges_by_key_.add(hash_of(from, to, offset), n, rehash)) return ++left_out_, 0;
  *first_from = ends->first_to = n;
  fresh = true;
  return n;
}

std::size_t ShapeGraph::bytes() const noexcept { return edges() * (sizeof(Edge) + 4) + variables() * (sizeof(Known) + 4); }

}  // namespace mortise::affinity
