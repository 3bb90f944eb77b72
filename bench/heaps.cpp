// What giving a heap back costs, against freeing its blocks one by one: bench/heaps [BLOCKS]. Prints the best of five of each.
// And what ten thousand small ones cost, each with a block of ten sizes.
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

#include "mortise/mortise.h"

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Blocks {
  mo_heap* heap = mo_heap_create(nullptr);
  std::vector<void*> held;
  Blocks(std::size_t count, std::size_t low, std::size_t high) : held(count) {
    unsigned seed = 1;
    for (void*& p : held) {
      seed = seed * 1103515245 + 12345;
      const std::size_t n = low + (seed >> 8) % (high - low + 1);
      if (!(p = mo_heap_alloc(heap, n))) exit(1);
      std::memset(p, 1, n);
    }
  }
};

double destroy(std::size_t count, std::size_t low, std::size_t high) {
  Blocks b(count, low, high);
  const auto start = Clock::now();
  mo_heap_destroy(b.heap);
  return since(start);
}
double free_each(std::size_t count, std::size_t low, std::size_t high) {
  Blocks b(count, low, high);
  const auto start = Clock::now();
  for (void* p : b.held) mo_heap_free(b.heap, p);
  const double seconds = since(start);
  mo_heap_destroy(b.heap);
  return seconds;
}

std::size_t resident_kib() {
  unsigned long mapped = 0, resident = 0;
  std::FILE* f = std::fopen("/proc/self/statm", "r");
  if (!f || std::fscanf(f, "%lu %lu", &mapped, &resident) != 2) exit(1);
  std::fclose(f);
  return resident * static_cast<unsigned long>(sysconf(_SC_PAGESIZE)) / 1024;
}

void many(std::size_t count) {
  std::vector<mo_heap*> heaps(count);
  const auto each = [&](Clock::time_point start) { return since(start) * 1e6 / static_cast<double>(count); };
  const std::size_t before = resident_kib();
  auto start = Clock::now();
  for (mo_heap*& h : heaps) h = mo_heap_create(nullptr);
  const double create = each(start);
  const std::size_t created = resident_kib();
  start = Clock::now();
  for (mo_heap* h : heaps)
    for (std::size_t n = 16; n < 256; n += 24) std::memset(mo_heap_alloc(h, n), 1, n);
  const double use = each(start);
  const std::size_t used = resident_kib();
  start = Clock::now();
  for (mo_heap* h : heaps) mo_heap_destroy(h);
  std::printf("%zu heaps: create %.1f us and %zu KiB each, ten first blocks %.1f us and %zu KiB, destroy %.1f us\n", count, create,
              (created - before) / count, use, (used - created) / count, each(start));
}

}  // namespace

int main(int, char** arguments) {
  many(10'000);  // first, in memory that nobody used
  const std::size_t count = arguments[1] ? strtoul(arguments[1], nullptr, 10) : 1'000'000;
  std::printf("%zu blocks        destroy      free each     ratio\n", count);
  for (auto [low, high] : {std::pair{32ul, 32ul}, {16ul, 128ul}, {16ul, 1000ul}}) {
    double at_once = 1e9, one_by_one = 1e9;
    for (int round = 0; round < 5; ++round) {
      at_once = std::min(at_once, destroy(count, low, high));
      one_by_one = std::min(one_by_one, free_each(count, low, high));
    }
    std::printf("%4zu..%4zu bytes   %8.3f ms   %8.3f ms   %7.0f\n", low, high, at_once * 1e3, one_by_one * 1e3, one_by_one / at_once);
  }
}
