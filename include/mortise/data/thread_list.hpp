// The threads that are attached to a layer: a list through the records that it keeps for them.
#pragma once

#include "mortise/sync/atomics.hpp"

namespace mortise {

/// A list through the members `Shared<Thread*> next` and `Shared<Thread*> prev` of records. All zero is a valid empty list.
/// Not synchronised: the lock of the layer. Every operation is O(1).
template <class Thread> class ThreadList {
 public:
  Thread* first() const noexcept { return first_; }

  void push(Thread* t) noexcept {
    t->next = first_.get();
    if (first_) first_->prev = t;
    first_ = t;
  }
  void remove(Thread* t) noexcept {
    (t->prev ? t->prev->next : first_) = t->next.get();
    if (t->next) t->next->prev = t->prev.get();
    t->next = nullptr;
    t->prev = nullptr;
  }

 private:
  Shared<Thread*> first_;
};

}  // namespace mortise
