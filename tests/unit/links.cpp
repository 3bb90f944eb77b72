// If this failed, whoever writes into freed memory could have the allocator hand out memory of his choice.
#include "mortise/data/links.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "mortise/backbone/tlsf.hpp"
#include "mortise/source/mmap_heap.hpp"
#include "mortise/sync/unsynchronised.hpp"
#include "tests/support/stage.hpp"

namespace mortise::test {
namespace {

using Encoded = Stack<Layers<Tlsf<Unsynchronised, fit::EncodedGoodFit>, MmapHeap<>>>;

TEST(Links, AWriteIntoAFreeChunkShowsWhenItIsTaken) {
  for (const std::size_t at : {0, 8}) {
    Stage<Encoded> stage;
    stage.as(0, [at](Encoded& h, auto& t) {
      std::byte target[256] = {};
      Block held[4];
      for (Block& b : held) b = h.allocate(t, {.size = 200});
      h.release(t, held[0]);
      h.release(t, held[2]);
      h.audit();
      const void* const wanted = target;
      std::memcpy(held[2].ptr + at, &wanted, sizeof wanted);
      EXPECT_DEATH(
          {
            for (int i = 0; i < 4; ++i) h.allocate(t, {.size = 200});
          },
          "fault=free_list_corrupted");
    });
  }
}

}  // namespace
}  // namespace mortise::test
