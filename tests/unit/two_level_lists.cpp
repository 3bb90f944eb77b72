// If this failed, a program that frees a block and asks for one of the same size again would be told that there is no memory.
#include "mortise/data/two_level_lists.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "mortise/backbone/tlsf.hpp"
#include "mortise/shape/limited_to.hpp"
#include "mortise/source/mmap_heap.hpp"
#include "mortise/sync/unsynchronised.hpp"
#include "tests/support/stage.hpp"

namespace mortise::test {
namespace {

using Small = Stack<Layers<Tlsf<Unsynchronised>, LimitedTo<16_MiB>, MmapHeap<>>>;

TEST(TwoLevelLists, WhatWasFreedCanBeHadAgainWhereAllElseIsInUse) {
  for (const std::size_t size : {100, 1000, 20'000, 300'000, 3'000'000}) {
    Stage<Small> stage;
    stage.as(0, [size](Small& h, auto& t) {
      std::vector<Block> held;
      while (const Block b = h.allocate(t, {.size = size})) held.push_back(b);
      for (std::size_t i = 0; i < held.size(); i += 2) h.release(t, held[i]);
      std::size_t again = 0;
      for (std::size_t i = 0; i < held.size(); i += 2) again += bool(h.allocate(t, {.size = size}));
      EXPECT_EQ(again, (held.size() + 1) / 2) << size;
      EXPECT_FALSE(h.allocate(t, {.size = size})) << size;
      h.audit();
    });
  }
}

}  // namespace
}  // namespace mortise::test
