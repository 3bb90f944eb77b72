// If this failed, an honest delete would be called a mismatch, or one through the wrong type would pass.
#include "mortise/guard/size_check.hpp"

#include <gtest/gtest.h>

#include "mortise/allocators/hslab.hpp"
#include "tests/support/stage.hpp"

namespace mortise::test {
namespace {

unsigned accused = 0;
void count(const Crime& crime) noexcept { accused += crime.fault == Fault::size_mismatch; }
using Checked = Stack<Layers<SizeCheck<on_fault::CallBack<count>>>, HslabLayers>;

/// Threads have cores, and cores colours, of their own; a colour is a class of its own, but not a size of its own.
TEST(SizeCheck, WhatWasAskedForIsRightInEveryColour) {
  Stage<Checked> stage(8);
  accused = 0;
  for (unsigned thread = 0; thread < 8; ++thread)
    for (std::size_t n = 1; n < 3000; n = n * 9 / 8 + 1)
      stage.as(thread, [n](Checked& h, auto& t) {
        const Block b = h.allocate(t, {.size = n});
        h.check_size(b.ptr, n, 1);
        ASSERT_EQ(accused, 0u) << n;
        h.check_size(b.ptr, n * 2 + 16, 1);
        ASSERT_EQ(accused, 1u) << n;
        accused = 0;
        h.release(t, b);
      });
}

}  // namespace
}  // namespace mortise::test
