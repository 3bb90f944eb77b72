// If this failed, AddressSanitizer would not see stray accesses in a heap that a program embeds: compiled with it.
#include <gtest/gtest.h>

#include "mortise/allocators/hslab.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/os/print_and_abort.hpp"
#include "mortise/watch/annotated.hpp"

namespace mortise::test {
namespace {

using Checked = Stack<Layers<Annotated<checker::Address>>, HslabLayers>;
constinit Checked heap{};
constinit thread_local os::OwnArea area{};

class AddressChecker : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(heap.start(os::read_facts(&area))); }
  std::byte* allocate(std::size_t n, bool zeroed = false) { return heap.allocate(t_, {.size = n, .zeroed = zeroed}).ptr; }
  void release(std::byte* p) { heap.release(t_, heap.block_of(p)); }
  Checked::Thread t_;
};

TEST_F(AddressChecker, LetsAProgramDoWhatItMay) {
  for (std::size_t n : {1ul, 24ul, 100ul, 5000ul, 400'000ul}) {
    for (int round = 0; round < 20; ++round) {
      std::byte* p = allocate(n, round % 2);
      for (std::size_t i = 0; i < n; ++i) ASSERT_TRUE(!(round % 2) || p[i] == std::byte{0});
      std::memset(p, 1, n);
      EXPECT_EQ(heap.measure(heap.block_of(p)).size, n);
      release(p);
    }
  }
}
TEST_F(AddressChecker, SeesAWriteBeyond) {
  volatile std::byte* p = allocate(100);
  EXPECT_DEATH(p[104] = std::byte{1}, "use-after-poison");
}
TEST_F(AddressChecker, SeesAUseAfterRelease) {
  volatile std::byte* p = allocate(100);
  release(const_cast<std::byte*>(p));
  EXPECT_DEATH(p[10] = std::byte{1}, "use-after-poison");
}

}  // namespace
}  // namespace mortise::test
