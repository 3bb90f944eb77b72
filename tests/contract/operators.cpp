// Should one of C++'s operators fall through to another library, or a failing one not throw, C++ programs would crash.
#include <gtest/gtest.h>

#include <new>

#include "contract.hpp"

namespace {

using namespace contract;
constexpr std::nothrow_t kNothrow{};
constexpr std::align_val_t kAlign{512};

std::size_t opaque(std::size_t n) {
  asm volatile("" : "+r"(n));
  return n;
}
/// A request that no machine can serve.
std::size_t too_much() { return opaque(std::size_t{1} << 60); }

TEST(Operators, EveryNewGivesABlockThatEveryDeleteTakes) {
  const std::size_t before = mallinfo2().uordblks;
  for (int i = 0; i < 5000; ++i) {
    const std::size_t n = opaque(static_cast<std::size_t>(i) % 700);
    void* plain[] = {::operator new(n), ::operator new[](n), ::operator new(n, kNothrow), ::operator new[](n, kNothrow),
                     ::operator new(n), ::operator new[](n)};
    for (void* p : plain) ASSERT_TRUE(p && is_aligned(p, 16) && malloc_usable_size(p) >= n);
    ::operator delete(plain[0]);
    ::operator delete[](plain[1]);
    ::operator delete(plain[2], kNothrow);
    ::operator delete[](plain[3], kNothrow);
    ::operator delete(plain[4], n);
    ::operator delete[](plain[5], n);
    void* aligned[] = {::operator new(n, kAlign), ::operator new[](n, kAlign), ::operator new(n, kAlign, kNothrow),
                       ::operator new[](n, kAlign, kNothrow), ::operator new(n, kAlign), ::operator new[](n, kAlign)};
    for (void* p : aligned) ASSERT_TRUE(p && is_aligned(p, 512) && malloc_usable_size(p) >= n);
    ::operator delete(aligned[0], kAlign);
    ::operator delete[](aligned[1], kAlign);
    ::operator delete(aligned[2], kAlign, kNothrow);
    ::operator delete[](aligned[3], kAlign, kNothrow);
    ::operator delete(aligned[4], n, kAlign);
    ::operator delete[](aligned[5], n, kAlign);
  }
  EXPECT_LT(mallinfo2().uordblks, before + (1 << 20)) << "blocks were lost";
}

TEST(Operators, AlignedNewServesEveryAlignment) {
  for (std::size_t align = 1; align <= 4 << 20; align *= 2) {
    void* p = ::operator new(opaque(100), std::align_val_t{align});
    EXPECT_TRUE(is_aligned(p, align)) << align;
    ::operator delete(p, std::align_val_t{align});
  }
}

TEST(Operators, BlocksOfNewAndMallocMix) {
  free(::operator new(opaque(100)));
  free(::operator new(opaque(100), kAlign));
  ::operator delete(malloc(100));
  ::operator delete(nullptr);
  ::operator delete(nullptr, kAlign);
  void* p = realloc(::operator new(opaque(100)), 5000);
  ::operator delete(p);
}

TEST(Operators, WithoutMemoryTheyThrowBadAlloc) {
  EXPECT_THROW(static_cast<void>(::operator new(too_much())), std::bad_alloc);
  EXPECT_THROW(static_cast<void>(::operator new[](too_much())), std::bad_alloc);
  EXPECT_THROW(static_cast<void>(::operator new(too_much(), kAlign)), std::bad_alloc);
  EXPECT_THROW(static_cast<void>(::operator new[](too_much(), kAlign)), std::bad_alloc);
  EXPECT_THROW(static_cast<void>(::operator new(opaque(SIZE_MAX))), std::bad_alloc);
}

TEST(Operators, WithoutMemoryTheNothrowFormsGiveNull) {
  EXPECT_EQ(::operator new(too_much(), kNothrow), nullptr);
  EXPECT_EQ(::operator new[](too_much(), kNothrow), nullptr);
  EXPECT_EQ(::operator new(too_much(), kAlign, kNothrow), nullptr);
  EXPECT_EQ(::operator new[](too_much(), kAlign, kNothrow), nullptr);
}

int calls_of_handler = 0;
void gives_up_after_three() {
  if (++calls_of_handler % 3 == 0) std::set_new_handler(nullptr);
}
struct MyError {};
void throws_its_own() { throw MyError{}; }
void throws_bad_alloc() { throw std::bad_alloc{}; }

TEST(Operators, TheNewHandlerIsAskedUntilThereIsNone) {
  calls_of_handler = 0;
  std::set_new_handler(gives_up_after_three);
  EXPECT_THROW(static_cast<void>(::operator new(too_much())), std::bad_alloc);
  EXPECT_EQ(calls_of_handler, 3);
  std::set_new_handler(gives_up_after_three);
  EXPECT_EQ(::operator new[](too_much(), kNothrow), nullptr);
  EXPECT_EQ(calls_of_handler, 6);
  std::set_new_handler(gives_up_after_three);
  EXPECT_THROW(static_cast<void>(::operator new(too_much(), kAlign)), std::bad_alloc);
  EXPECT_EQ(calls_of_handler, 9);
  std::set_new_handler(nullptr);
}

TEST(Operators, WhatTheHandlerThrowsGoesThrough) {
  std::set_new_handler(throws_its_own);
  EXPECT_THROW(static_cast<void>(::operator new(too_much())), MyError);
  EXPECT_THROW(static_cast<void>(::operator new[](too_much(), kAlign)), MyError);
  std::set_new_handler(nullptr);
}

TEST(Operators, ANothrowFormTurnsTheHandlersBadAllocIntoNull) {
  std::set_new_handler(throws_bad_alloc);
  EXPECT_EQ(::operator new(too_much(), kNothrow), nullptr);
  EXPECT_EQ(::operator new[](too_much(), kAlign, kNothrow), nullptr);
  std::set_new_handler(nullptr);
}

}  // namespace
