// Blocks whose ownership shows, for the models of what keeps free blocks.
#pragma once

#include "explorer/explorer.hpp"
#include "mortise/sync/free_link.hpp"

namespace mortise::model {

/// A block as a program sees it: its owner writes all over it, the link included.
struct Block {
  FreeLink link;
  Shared<int> owned;
};

inline FreeLink g_trap;  // mapped, so that a bin which follows a written-over link is caught by a check
inline FreeLink* scribble() { return &g_trap; }

/// The calling thread has got this block: it writes into it. A second owner is a race, or finds it owned.
inline void own(FreeLink* link) {
  auto* const block = reinterpret_cast<Block*>(link);
  require(block->owned.get() == 0, "a block was handed out twice");
  block->owned.set(1);
  link->next.store(scribble(), Order::relaxed);
}

/// The calling thread is about to give it back, and finds it as it left it.
inline void disown(FreeLink* link) {
  auto* const block = reinterpret_cast<Block*>(link);
  require(link->next.load(Order::relaxed) == scribble(), "somebody wrote into a block that was handed out");
  block->owned.set(0);
}

/// At the end: of the first `count` blocks each is either owned by the program or in the bin, once.
template <class Bin>
void check_each_once(Bin& bin, Block* block, unsigned count) {
  unsigned seen = 0, held = 0;
  while (FreeLink* const link = bin.pop()) {
    auto* const found = reinterpret_cast<Block*>(link);
    require(found >= block && found < block + count, "a block came out that never went in");
    require(!(seen & 1u << (found - block)), "a block is in the bin twice");
    require(found->owned.get() == 0, "a block is in the bin and with the program");
    seen |= 1u << (found - block);
  }
  for (unsigned i = 0; i < count; ++i) held |= unsigned(block[i].owned.get()) << i;
  require((seen | held) == (1u << count) - 1, "a block is lost");
}

}  // namespace mortise::model
