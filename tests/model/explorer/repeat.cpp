// Most steps of an execution are those of the one before. They are not worked out again: threads are told what they were told then, and
// the machine goes back to where it was before the first step that differs. (What a scenario keeps besides is its own, so its threads run
// again from their beginning.)
#include <cstring>

#include "explorer/search.hpp"

namespace mortise::model {

void Search::save(std::size_t depth) {
  if (depth / kSavedEvery == saved_.size()) saved_.emplace_back();
  Saved& to = saved_[depth / kSavedEvery];
  machine_.save(to.machine);
  to.answers = answered_;
}

/// Takes the steps before the last node, or before one short of it, as they were taken before; how many.
std::size_t Search::repeat() {
  if (!repeats_) return 0;
  const std::size_t depth = (nodes_.size() - 1) / kSavedEvery * kSavedEvery;
  for (std::size_t i = 0; i < depth; ++i) {
    const Told& told = told_[i];
    Logical& self = fibers_[told.thread];
    switch_core(told.thread);
    if (told.expired) ++self.expirations;
    if (!self.pending || self.interrupted != told.restart || told.print != print_of(*self.pending)) {
      fail("the scenario does not repeat itself: it depends on more than its steps");
      break;
    }
    Operation& op = *self.pending;
    op.result = told.result;
    op.success = told.success;
    if (told.wrote) std::memcpy(const_cast<void*>(op.address), &told.left, op.bytes);
    ++self.steps;
    if (op.kind != Kind::await) ++self.counted;
    enter(told.thread);
  }
  repeats_ = false;
  steps_.erase(steps_.begin() + static_cast<std::ptrdiff_t>(depth), steps_.end());
  told_.resize(depth);
  for (auto* list : {&ordering_, &barriers_})
    while (!list->empty() && list->back() >= depth) list->pop_back();
  machine_.restore(saved_[depth / kSavedEvery].machine);
  answers_.resize(saved_[depth / kSavedEvery].answers);
  return depth;
}

}  // namespace mortise::model
