// A balanced search tree through its nodes, without balance data: priorities are a hash of the node's address.
//
//            (key order from left to right, priorities falling from top to bottom)
//                    n
//                  /   \                      A node may know the largest weight below it, so that "the first node, in key
//             smaller   larger                order, that weighs at least w" is found in one descent.
//
// Algorithm: treap, insertion by split and removal by merge. Source: [SeidelAragon96]; expected depth 2 ln n.
// Progress: not synchronised; whoever holds the lock of the structure it is part of may call.
// Placement: data; the tree owns no memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mortise/core/bits.hpp"

namespace mortise {

/// `Traits` names the node type and says: `before(a, b)` the order; `weight(n)` what is searched for; `kTracksLargest` whether
/// nodes have a member `largest`. Nodes have members `left` and `right`. All zero is a valid empty tree.
/// Every operation is O(log n) expected.
template <class Traits> class Treap {
  using Node = typename Traits::Node;

 public:
  void insert(Node* n) noexcept { insert(root_, n); }
  void remove(Node* n) noexcept { remove(root_, n); }

  /// The first node in order whose weight is at least `w`, or null.
  Node* first_of_weight(std::size_t w) const noexcept requires(Traits::kTracksLargest) { return first(root_, w); }

  /// The first node in order, not before `from`, whose weight is at least `w`, or null.
  Node* first_of_weight_from(std::size_t w, const Node* from) const noexcept requires(Traits::kTracksLargest) {
    return first_from(root_, w, from);
  }

  /// The first node for which `reaches(node)` is true, given that it is true for all after that one.
  template <class Reaches> Node* lower_bound(Reaches reaches) const noexcept {
    Node* best = nullptr;
    for (Node* n = root_; n;) {
      if (reaches(n)) {
        best = n;
        n = n->left;
      } else {
        n = n->right;
      }
    }
    return best;
  }

  /// Calls `visit` with each node in order.
  template <class Visit> void each(Visit visit) const noexcept { each(root_, visit); }

  /// True when order, priorities and tracked weights hold everywhere. O(n).
  bool is_sound() const noexcept { return is_sound(root_); }

 private:
  static std::uint64_t priority(const Node* n) noexcept {
    std::uint64_t h = address_of(n) * 0x9E3779B97F4A7C15ull;
    h ^= h >> 32;
    return h * 0xD6E8FEB86659FD93ull;
  }
  static void update(Node* n) noexcept {
    if constexpr (Traits::kTracksLargest) {
      std::size_t w = Traits::weight(n);
      if (n->left && n->left->largest > w) w = n->left->largest;
      if (n->right && n->right->largest > w) w = n->right->largest;
      n->largest = w;
    }
  }
  static void insert(Node*& at, Node* n) noexcept {
    if (!at || priority(n) > priority(at)) {
      split(at, n, n->left, n->right);
      at = n;
    } else {
      insert(Traits::before(n, at) ? at->left : at->right, n);
    }
    update(at);
  }
  /// Parts the nodes below `at` into those before `n` and those after it.
  static void split(Node* at, const Node* n, Node*& before, Node*& after) noexcept {
    if (!at) {
      before = after = nullptr;
    } else if (Traits::before(at, n)) {
      before = at;
      split(at->right, n, at->right, after);
      update(at);
    } else {
      after = at;
      split(at->left, n, before, at->left);
      update(at);
    }
  }
  static void remove(Node*& at, Node* n) noexcept {
    if (at == n) {
      at = merge(n->left, n->right);
      return;
    }
    remove(Traits::before(n, at) ? at->left : at->right, n);
    update(at);
  }
  static Node* merge(Node* a, Node* b) noexcept {
    if (!a) return b;
    if (!b) return a;
    if (priority(a) > priority(b)) {
      a->right = merge(a->right, b);
      update(a);
      return a;
    }
    b->left = merge(a, b->left);
    update(b);
    return b;
  }
  static Node* first(Node* n, std::size_t w) noexcept {
    while (n && n->largest >= w) {
      if (n->left && n->left->largest >= w) n = n->left;
      else if (Traits::weight(n) >= w) return n;
      else n = n->right;
    }
    return nullptr;
  }
  static Node* first_from(Node* n, std::size_t w, const Node* from) noexcept {
    if (!n || n->largest < w) return nullptr;
    if (Traits::before(n, from)) return first_from(n->right, w, from);
    if (Node* l = first_from(n->left, w, from)) return l;
    return Traits::weight(n) >= w ? n : first(n->right, w);
  }
  template <class Visit> static void each(Node* n, Visit& visit) noexcept {
    if (!n) return;
    each(n->left, visit);
    visit(n);
    each(n->right, visit);
  }
  static bool is_sound(const Node* n) noexcept {
    if (!n) return true;
    for (const Node* child : {n->left, n->right}) {
      if (child && (priority(child) > priority(n) || Traits::before(child, n) != (child == n->left))) return false;
    }
    if constexpr (Traits::kTracksLargest) {
      std::size_t w = Traits::weight(n);
      for (const Node* child : {n->left, n->right})
        if (child && child->largest > w) w = child->largest;
      if (w != n->largest) return false;
    }
    return is_sound(n->left) && is_sound(n->right);
  }

  Node* root_ = nullptr;
};

}  // namespace mortise
