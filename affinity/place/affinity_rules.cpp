#include "affinity/place/affinity_rules.hpp"

#include <utility>

namespace mortise::affinity {

bool Classes::prepare() noexcept {
  if (!parent_) parent_ = reinterpret_cast<NodeId*>(analysis_memory(kNodesMax * sizeof(NodeId)));
  if (!ring_) ring_ = reinterpret_cast<NodeId*>(analysis_memory(kNodesMax * sizeof(NodeId)));
  return parent_ && ring_;
}

NodeId Classes::leader(NodeId n) noexcept {
  if (!parent_) return n;
  while (parent_[n] && parent_[n] != n) {
    const NodeId above = parent_[parent_[n]];
    if (above) parent_[n] = above;  // halves the way for the next
    n = parent_[n];
  }
  return n;
}

bool Classes::unite(NodeId a, NodeId b) noexcept {
  if (!prepare()) return false;
  NodeId first = leader(a), second = leader(b);
  if (first == second) return false;
  if (second < first) std::swap(first, second);
  parent_[second] = first;
  const NodeId after_first = next(first), after_second = next(second);
  ring_[first] = after_second;
  ring_[second] = after_first;
  return true;
}

void AffinityRules::sized(NodeId n, std::uint32_t bytes) noexcept {
  if (!sizes_) sizes_ = reinterpret_cast<std::uint32_t*>(analysis_memory(kNodesMax * sizeof(std::uint32_t)));
  if (!sizes_) return;
  if (sizes_[n] == 0) sizes_[n] = bytes ? bytes : 1;
  else if (sizes_[n] != (bytes ? bytes : 1)) sizes_[n] = kVaries;
}

}  // namespace mortise::affinity
