// If this failed, a block of some size would be too small for what was asked, or larger than the next class that would do.
#include "mortise/policy/size_classes.hpp"

#include <gtest/gtest.h>

namespace mortise::test {
namespace {

template <class Classes> class SizeClasses : public testing::Test {};
using All = testing::Types<classes::Geometric<8, 64_KiB>, classes::Geometric<8, 64_KiB, 32>, classes::Geometric<1, 16_KiB>,
                           classes::ExactSmall<>, classes::ExactSmall<512, 8, 64_KiB, 32>>;
TYPED_TEST_SUITE(SizeClasses, All);

TYPED_TEST(SizeClasses, EverySizeHasTheSmallestClassThatHoldsIt) {
  for (std::size_t n = 0; n <= TypeParam::kMaxBytes; ++n) {
    const unsigned c = TypeParam::class_of(n);
    ASSERT_TRUE(c >= 1 && c <= TypeParam::kCount) << n;
    ASSERT_GE(TypeParam::size_of(c), n);
    ASSERT_TRUE(c == 1 || TypeParam::size_of(c - 1) < n) << n;
  }
  EXPECT_EQ(TypeParam::size_of(TypeParam::kCount), TypeParam::kMaxBytes);
}

TEST(SizeClasses, NoClassIsSmallerThanTheLeast) {
  using From32 = classes::Geometric<8, 64_KiB, 32>;
  EXPECT_EQ(From32::size_of(1), 32u);
  EXPECT_EQ(From32::size_of(2), 48u);
  EXPECT_EQ(From32::kCount + 1, (classes::Geometric<8, 64_KiB>::kCount));
}

/// Alignments are served so: a size that is a multiple of a power of two has a class whose size is one too.
TYPED_TEST(SizeClasses, AMultipleOfAPowerOfTwoGetsOne) {
  for (std::size_t align = 16; align <= 4_KiB; align *= 2)
    for (std::size_t n = align; n <= TypeParam::kMaxBytes; n += align)
      ASSERT_EQ(TypeParam::size_of(TypeParam::class_of(n)) % align, 0u) << n;
}

}  // namespace
}  // namespace mortise::test
