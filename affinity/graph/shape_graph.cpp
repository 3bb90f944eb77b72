#include "affinity/graph/shape_graph.hpp"

#include <string.h>

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

template <class T> bool take(T*& table, std::size_t count) {
  if (!table) table = reinterpret_cast<T*>(analysis_memory(count * sizeof(T)));
  return table != nullptr;
}

}  // namespace

bool ShapeGraph::prepare() noexcept {
  return take(edges_, kEdgesMax + 1) && take(variables_, kVariablesMax + 1) && take(edge_slots_.at, kSlots) &&
         take(variable_slots_.at, kSlots) && take(from_, kNodesMax + kVariablesMax + 1) && take(to_, kNodesMax + 1);
}

template <class HashOf> void ShapeGraph::Slots::put(std::uint32_t& slot, std::uint32_t count, HashOf&& hash_of) noexcept {
  slot = count;
  if (count * 2 < room || room == kSlots) return;
  memset(at, 0, room * sizeof *at);
  room = room * 2;
  for (std::uint32_t n = 1; n <= count; ++n) {
    std::uint64_t i = hash_of(n) % room;
    while (at[i]) i = (i + 1) % room;
    at[i] = n;
  }
}

GraphNode ShapeGraph::variable(const Variable& v) noexcept {
  if (!prepare()) return 0;
  for (std::uint64_t i = hash_of(v) % variable_slots_.room;; i = (i + 1) % variable_slots_.room) {
    std::uint32_t& slot = variable_slots_.at[i];
    if (!slot) {
      if (variable_count_ == kVariablesMax) return ++left_out_, 0;
      const std::uint32_t n = ++variable_count_;
      variables_[n] = v;
      variable_slots_.put(slot, n, [&](std::uint32_t known) { return hash_of(variables_[known]); });
      return kFirstVariable + n;
    }
    const Variable& there = variables_[slot];
    if (there.place == v.place && there.offset == v.offset && there.kind == v.kind) return kFirstVariable + slot;
  }
}

std::uint32_t ShapeGraph::add(GraphNode from, NodeId to, std::int32_t offset, Seen by, bool& fresh) noexcept {
  fresh = false;
  if (!prepare() || to == kNoNode || to >= kNodesMax || from == 0) return 0;
  for (std::uint64_t i = hash_of(from, to, offset) % edge_slots_.room;; i = (i + 1) % edge_slots_.room) {
    std::uint32_t& slot = edge_slots_.at[i];
    if (!slot) {
      if (edge_count_ == kEdgesMax) return ++left_out_, 0;
      const std::uint32_t n = ++edge_count_;
      edges_[n] = {from, to, offset, 1, from_[index_of(from)], to_[to], static_cast<std::uint8_t>(by)};
      from_[index_of(from)] = to_[to] = n;
      edge_slots_.put(slot, n, [&](std::uint32_t known) { return hash_of(edges_[known].from, edges_[known].to, edges_[known].offset); });
      fresh = true;
      return n;
    }
    Edge& e = edges_[slot];
    if (e.from != from || e.to != to || e.offset != offset) continue;
    ++e.count;
    e.seen |= static_cast<std::uint8_t>(by);
    return slot;
  }
}

std::size_t ShapeGraph::bytes() const noexcept {
  return edge_count_ * (sizeof(Edge) + 4) + variable_count_ * (sizeof(Variable) + 8);
}

}  // namespace mortise::affinity
