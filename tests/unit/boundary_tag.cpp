// If this failed, each malloc that fails at a memory limit would make a system call for every free chunk of the heap, again and again.
#include "mortise/backbone/boundary_tag.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "mortise/backbone/buddy.hpp"
#include "mortise/backbone/tlsf.hpp"
#include "mortise/source/mmap_heap.hpp"
#include "tests/support/stage.hpp"

namespace mortise::test {
namespace {

unsigned purges = 0;
bool works = true;

/// A source that counts how often pages go back.
struct CountsPurges {
  template <Contiguous Below> class Over : public Passthrough<Below> {
   public:
    static constexpr std::size_t kGranule = Below::kGranule, kReach = Below::kReach;
    std::byte* origin() noexcept { return this->below.origin(); }
    std::byte* side(std::size_t n) noexcept { return this->below.side(n); }
    bool back_side(std::byte* at, std::size_t n) noexcept { return this->below.back_side(at, n); }
    bool purge_pages(std::byte* at, std::size_t n) noexcept { return ++purges, works && this->below.purge_pages(at, n); }
  };
};

template <class Backbone> class FreeChunks : public testing::Test {
 public:
  using H = Stack<Layers<Backbone, CountsPurges, MmapHeap<>>>;
  static constexpr unsigned kBlocks = 100;
};
using Backbones = testing::Types<BoundaryTag<>, BoundaryTag<fit::FirstFit>, Tlsf<>, Buddy<>>;
TYPED_TEST_SUITE(FreeChunks, Backbones);

TYPED_TEST(FreeChunks, GiveTheirPagesBackOnce) {
  Stage<typename TestFixture::H> stage;
  stage.as(0, [](auto& h, auto& t) {
    std::vector<Block> blocks;
    for (unsigned i = 0; i < 2 * TestFixture::kBlocks; ++i) blocks.push_back(h.allocate(t, {.size = 20'000}));
    h.trim(t);  // what was never handed out
    for (unsigned i = 0; i < blocks.size(); i += 2) h.release(t, blocks[i]);

    works = false, purges = 0;  // pages that are locked stay, and are asked for again
    EXPECT_EQ(h.trim(t), 0u);
    EXPECT_EQ(purges, TestFixture::kBlocks);
    works = true, purges = 0;
    EXPECT_GE(h.trim(t), TestFixture::kBlocks * 12'288u);
    EXPECT_EQ(purges, TestFixture::kBlocks);
    purges = 0;
    EXPECT_EQ(h.trim(t), 0u);
    EXPECT_EQ(purges, 0u);

    // Used and released again, and merged with what was given back: the whole chunk goes back once more.
    h.release(t, h.allocate(t, {.size = 20'000}));
    h.release(t, blocks[1]);
    purges = 0;
    EXPECT_GE(h.trim(t), 3 * 20'000u - 4 * 4096);
    EXPECT_GE(purges, 1u);
    EXPECT_LE(purges, 2u);
    h.audit();
  });
}

}  // namespace
}  // namespace mortise::test
