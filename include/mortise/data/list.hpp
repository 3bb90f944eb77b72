// Intrusive doubly linked list: the nodes bring their links, the list owns nothing.
#pragma once

#include "mortise/core/inline.hpp"

namespace mortise {

/// A list through the members `Node* next` and `Node* prev` of its nodes. All zero is a valid empty list.
/// Not synchronised: whoever holds the lock of the structure it is part of may call. Every operation is O(1).
template <class Node> class List {
 public:
  bool is_empty() const noexcept { return !first_; }
  Node* first() const noexcept { return first_; }
  Node* last() const noexcept { return last_; }

  void push(Node* n) noexcept {
    n->prev = nullptr;
    n->next = first_;
    (first_ ? first_->prev : last_) = n;
    first_ = n;
  }
  void push_last(Node* n) noexcept {
    n->next = nullptr;
    n->prev = last_;
    (last_ ? last_->next : first_) = n;
    last_ = n;
  }
  void remove(Node* n) noexcept {
    (n->prev ? n->prev->next : first_) = n->next;
    (n->next ? n->next->prev : last_) = n->prev;
    n->next = n->prev = nullptr;
  }
  Node* pop() noexcept {
    Node* n = first_;
    if (n) remove(n);
    return n;
  }

 private:
  Node* first_ = nullptr;
  Node* last_ = nullptr;
};

}  // namespace mortise
