// Whether the objects of a node each hold one object of another pool of their size class, a different one each: seen in what the program
// has written into some of them by the time their pool has grown.
//
//   eight objects of the segment that is full now      A1 +40─► B7     A2 +40─► B8     A3 +40─► B9   ...   at one offset: a part each
//
// Such an object and its part are allocated, visited and released together, so one pool lets them be neighbours. Where the pool of the
// parts has not grown meanwhile, they were there before, and what holds them are steps of a search, or entries of an index: these come to
// lie beside each other, not beside the parts, and had better not lie among all of them. An object with several parts is a table, too, and
// whoever walks them had better find them in a row. The interpreter runs from the allocation for 200 steps: a
// part that is made later, by way of an interpreted language, say, it does not see; and a node that many types share is looked at while it
// has 32 objects, which need not be of the type that it has many of.
//
// Memory is read through the kernel. Not synchronised.
#pragma once

#include "affinity/seam.hpp"

namespace mortise::affinity {

class OwnParts {
 public:
  static constexpr unsigned kObjects = 8, kEnough = 6;
  static_assert(kObjects <= Read::kMax);

  /// The node whose objects are the parts of `node`'s, of which some lie in the `bytes` at `first`; kNoNode if there is none.
  /// O(kObjects · words of an object).
  static NodeId part_of(const NodeView& node, std::uintptr_t first, std::size_t bytes) noexcept {
    const unsigned words = node.size_class * 2;
    if (words > kWords) return kNoNode;
    std::uintptr_t held[kObjects][kWords];
    Read piece[kObjects];
    for (unsigned i = 0; i < kObjects; ++i) {
      const std::uintptr_t at = first + bytes / kObjects * i;
      if (view(node_of(at)).pool != node.pool) return kNoNode;
      piece[i] = {object_of(at), held[i]};
    }
    if (!read_memory(piece, kObjects, words * sizeof **held)) return kNoNode;
    NodeId only = kNoNode;
    for (unsigned w = 0; w < words; ++w) {
      const NodeId part = part_at(node, held, w);
      if (part && only) return kNoNode;
      if (part) only = part;
    }
    return only;
  }

 private:
  static constexpr unsigned kWords = 16;

  static NodeId part_at(const NodeView& node, const std::uintptr_t (&held)[kObjects][kWords], unsigned w) noexcept {
    NodeId part = kNoNode;
    std::uintptr_t seen[kObjects];
    unsigned count = 0;
    for (unsigned i = 0; i < kObjects; ++i) {
      const NodeView to = view(node_of(held[i][w]));
      if (!to.has_own_pool || !to.pool || to.pool == node.pool || to.size_class != node.size_class || (part && to.pool != part)) continue;
      if (to.grew_at < node.looked_into_at) continue;
      const std::uintptr_t object = object_of(held[i][w]);
      bool is_new = true;
      for (unsigned k = 0; k < count; ++k) is_new &= seen[k] != object;
      if (!is_new) continue;
      part = to.pool;
      seen[count++] = object;
    }
    return count >= kEnough ? part : kNoNode;
  }
};

}  // namespace mortise::affinity
