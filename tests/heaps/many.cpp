// If this failed, a program that gives each of its requests, documents or connections a heap would run out of memory. A program of its
// own, for what it counts is the process's.
#include <gtest/gtest.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "mortise/mortise.h"

namespace {

constexpr std::size_t kHeaps = 10'000, kBytesOfEach = 48 * 1024;
/// Where other heaps were, blocks may lie in spans that still hold pages of those heaps' tables: how many, chance decides (41 to 54 KiB).
constexpr std::size_t kBytesOfLaterOnes = 64 * 1024;

std::size_t resident_bytes() {
  unsigned long mapped = 0, resident = 0;
  FILE* f = fopen("/proc/self/statm", "r");
  EXPECT_EQ(fscanf(f, "%lu %lu", &mapped, &resident), 2);
  fclose(f);
  return resident * static_cast<unsigned long>(sysconf(_SC_PAGESIZE));
}

/// A system that makes huge pages of everything decides what a page takes, not the heaps.
bool makes_huge_pages_unasked() {
  std::string setting;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), setting);
  return setting.find("[always]") != std::string::npos;
}

TEST(ManyHeaps, TakeWhatTheyTouch) {
  ASSERT_TRUE(!makes_huge_pages_unasked() || prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0);
  std::vector<mo_heap*> heaps(kHeaps);
  const std::size_t before = resident_bytes();
  for (int round = 0; round < 3; ++round) {  // in the later ones heaps and their tables lie where others were
    for (mo_heap*& h : heaps) {
      ASSERT_NE(h = mo_heap_create(nullptr), nullptr);
      for (const std::size_t n : {24, 24, 24, 100}) {
        void* const p = mo_heap_alloc(h, n);
        ASSERT_NE(p, nullptr);
        memset(p, 7, n);
      }
    }
    EXPECT_LE(resident_bytes() - before, kHeaps * (round ? kBytesOfLaterOnes : kBytesOfEach)) << "round " << round;
    for (std::size_t i = 0; i < kHeaps; ++i) mo_heap_destroy(heaps[i * 7919 % kHeaps]);
  }
}

}  // namespace
