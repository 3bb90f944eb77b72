// If this failed, each malloc that fails at a memory limit would make a system call for every free chunk of the heap, again and again; and
// what realloc cuts off a large block would stay in memory, where what free takes back does not.
#include "mortise/backbone/boundary_tag.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <type_traits>
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

TYPED_TEST(FreeChunks, CutOffABlockGoBackAsReleasedOnesDo) {
  static constexpr unsigned kAtOnce = std::is_same_v<TypeParam, Tlsf<>> ? 0 : 1;
  Stage<typename TestFixture::H> stage;
  stage.as(0, [](auto& h, auto& t) {
    works = true;
    const Block b = h.allocate(t, {.size = 8_MiB});
    std::memset(b.ptr, 0x5a, b.size);
    purges = 0;
    Block now = h.resize_in_place(t, b, 1_MiB);
    EXPECT_EQ(now.ptr, b.ptr);
    EXPECT_EQ(purges, kAtOnce);
    EXPECT_EQ(now.ptr[1_MiB - 1], std::byte{0x5a});
    EXPECT_EQ(now.ptr[4_MiB], kAtOnce ? std::byte{0} : std::byte{0x5a});
    purges = 0;  // neither what grows a little at a time nor what gives little back makes system calls
    for (std::size_t n = 1_MiB; n < 4_MiB; n += 64_KiB) now = h.resize_in_place(t, now, n);
    now = h.resize_in_place(t, now, now.size - 100'000);
    EXPECT_EQ(purges, 0u);
    h.audit();
  });
}

/// The smallest chunk of a fit that needs 48 bytes was no multiple of 32: all behind it lay between the places that had been promised.
TEST(BoundaryTag, BlocksStartAtMultiplesOfTheQuantum) {
  const auto try_quantum = []<class H>(std::type_identity<H>, std::size_t quantum) {
    Stage<H> stage;
    stage.as(0, [quantum](H& h, auto& t) {
      for (std::size_t n = 1; n < 500; n += 7) {
        const Block b = h.allocate(t, {.size = n, .align = quantum});
        ASSERT_TRUE(is_aligned(b.ptr, quantum)) << n;
        if (n % 3 == 0) h.release(t, b);
      }
      h.audit();
    });
  };
  try_quantum(std::type_identity<Stack<Layers<BoundaryTag<fit::NextFit, FutexLock, purge::Never, 32>, MmapHeap<>>>>{}, 32);
  try_quantum(std::type_identity<Stack<Layers<BoundaryTag<fit::FirstFit, FutexLock, purge::Never, 64>, MmapHeap<>>>>{}, 64);
}

}  // namespace
}  // namespace mortise::test
