#include "affinity/place/affinity_rules.hpp"

#include <utility>

namespace mortise::affinity {

NodeId Classes::leader(NodeId n) noexcept {
  while (const NodeId parent = links_[n].parent) {
    if (parent == n) break;
    if (const NodeId above = links_[parent].parent) links_.at(n)->parent = above;  // halves the way for the next
    n = links_[n].parent;
  }
  return n;
}

bool Classes::unite(NodeId a, NodeId b) noexcept {
  NodeId first = leader(a), second = leader(b);
  if (first == second) return false;
  if (second < first) std::swap(first, second);
  Links *const upper = links_.at(first), *const lower = links_.at(second);
  if (!upper || !lower) return false;
  const NodeId after_first = next(first), after_second = next(second);
  lower->parent = first;
  upper->next = after_second;
  lower->next = after_first;
  return true;
}

void AffinityRules::sized(NodeId n, std::uint32_t bytes) noexcept {
  std::uint32_t* const size = sizes_.at(n);
  if (!size) return;
  if (*size == 0) *size = bytes ? bytes : 1;
  else if (*size != (bytes ? bytes : 1)) *size = kVaries;
}

}  // namespace mortise::affinity
