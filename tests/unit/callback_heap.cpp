// If this failed, a program that brings its own memory would not get all of it back, or would be asked for more than it said.
#include "mortise/source/callback_heap.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "mortise/shape/sized_header.hpp"

namespace mortise::test {
namespace {

struct Ledger {
  std::map<void*, std::size_t> out;
  std::size_t room = 1_MiB;
  Callbacks callbacks() {
    return {.take = [](void* context, std::size_t bytes, std::size_t align) -> void* {
              auto& ledger = *static_cast<Ledger*>(context);
              if (bytes > ledger.room) return nullptr;
              void* const p = ::aligned_alloc(align, round_up(bytes, align));
              std::memset(p, 0x5a, bytes);  // not zeroed
              ledger.room -= bytes;
              ledger.out[p] = bytes;
              return p;
            },
            .give = [](void* context, void* at, std::size_t bytes) {
              auto& ledger = *static_cast<Ledger*>(context);
              EXPECT_EQ(ledger.out[at], bytes) << "given back with another size";
              ledger.out.erase(at);
              ledger.room += bytes;
              ::free(at);
            },
            .context = this};
  }
};

TEST(CallbackHeap, AsksAndGivesBackWhatItWasGiven) {
  Ledger ledger;
  CallbackHeap h;
  CallbackHeap::Thread t;
  EXPECT_FALSE(h.allocate(t, {.size = 1})) << "nobody has said where memory comes from";
  h.use(ledger.callbacks());
  const Block b = h.allocate(t, {.size = 5000, .align = 4096, .zeroed = true});
  ASSERT_TRUE(b);
  EXPECT_TRUE(is_aligned(b.ptr, 4096));
  for (std::size_t i = 0; i < b.size; ++i) ASSERT_EQ(b.ptr[i], std::byte{0});
  EXPECT_FALSE(h.allocate(t, {.size = 2_MiB})) << "the user has no more";
  EXPECT_FALSE(h.allocate(t, {.size = SIZE_MAX}));
  h.release(t, b);
  EXPECT_TRUE(ledger.out.empty());
}

TEST(CallbackHeap, AStackOnItFindsItsBlocks) {
  Ledger ledger;
  {
    Stack<Layers<SizedHeader, CallbackHeap>> h;
    h.below.use(ledger.callbacks());
    decltype(h)::Thread t;
    const Block b = h.allocate(t, {.size = 100});
    ASSERT_TRUE(b && h.holds(b.ptr));
    h.release(t, h.block_of(b.ptr));
  }
  EXPECT_TRUE(ledger.out.empty());
}

TEST(CallbackHeap, MemoryThatIsNeverTakenBack) {
  Ledger ledger;
  Callbacks only_take = ledger.callbacks();
  only_take.give = nullptr;
  CallbackHeap h(only_take);
  CallbackHeap::Thread t;
  const Block b = h.allocate(t, {.size = 64});
  h.release(t, b);
  EXPECT_EQ(ledger.out.size(), 1u);
  ::free(b.ptr);
}

}  // namespace
}  // namespace mortise::test
