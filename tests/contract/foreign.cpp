// Should a block that libc made reach our free and crash it, programs whose libraries bypass the preload would not run.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "contract.hpp"

namespace {

/// libc's own functions, past the ones that stand in front of them.
template <class F> F* libcs(const char* name) {
  void* libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<F*>(dlsym(libc, name));
}

TEST(Foreign, LibcsBlocksAreFreedResizedAndMeasured) {
  auto* const make = libcs<void*(std::size_t)>("malloc");
  Dl_info where;
  ASSERT_TRUE(make && dladdr(reinterpret_cast<void*>(make), &where) && strstr(where.dli_fname, "libc.so"));
  for (const std::size_t n : {std::size_t{1}, std::size_t{100}, std::size_t{5000}, std::size_t{1} << 20}) {
    for (int i = 0; i < 100; ++i) {
      free(make(n));
      ::operator delete(make(n));
      free_sized(make(n), n);
      void* p = make(n);
      EXPECT_GE(malloc_usable_size(p), n);
      contract::write_pattern(p, n, 9);
      p = realloc(p, 3 * n);
      ASSERT_TRUE(contract::has_pattern(p, n, 9));
      p = realloc(p, n);
      ASSERT_TRUE(contract::has_pattern(p, n, 9));
      EXPECT_EQ(realloc(p, 0), nullptr);
    }
  }
}

TEST(Foreign, AForeignFreeLeavesErrnoAlone) {
  void* p = libcs<void*(std::size_t)>("malloc")(100);
  errno = 42;
  free(p);
  EXPECT_EQ(errno, 42);
}

/// A library in a namespace of its own has its own libc: its blocks are its own, ours are ours.
TEST(Foreign, ANamespaceOfItsOwnKeepsItsOwnHeap) {
  void* other = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);
  ASSERT_NE(other, nullptr) << dlerror();
  auto* const make = reinterpret_cast<void* (*)(std::size_t)>(dlsym(other, "malloc"));
  auto* const give_back = reinterpret_cast<void (*)(void*)>(dlsym(other, "free"));
  ASSERT_TRUE(make && give_back && make != malloc);
  for (int i = 0; i < 100; ++i) {
    void* p = make(1000);
    EXPECT_NE(p, nullptr);
    give_back(p);
  }
  dlclose(other);
}

}  // namespace
