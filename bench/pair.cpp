// The micro table: nanoseconds per malloc/free pair by size, for the library that serves this process.
//
//   pair                          the table as one line of JSON: best of several repetitions, LIFO and batches
//   pair --count SIZE BATCH N     N pairs of SIZE bytes in batches of BATCH, untimed: for counting instructions
//
// "lifo" frees each block before the next is taken, so it stays hot; "batch" takes 50 and then frees 50.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>
#include <time.h>

namespace {

constexpr int kBatch = 50, kRepetitions = 9;
void* blocks[1 << 16];

double now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

void lifo(std::size_t size, long pairs) {
  for (long i = 0; i < pairs; ++i) {
    void* volatile block = std::malloc(size);
    std::free(block);
  }
}

void batch(std::size_t size, long pairs, int count) {
  for (long i = 0; i < pairs; i += count) {
    for (int k = 0; k < count; ++k) blocks[k] = std::malloc(size);
    for (int k = 0; k < count; ++k) std::free(blocks[k]);
  }
}

/// The best of the repetitions; a slow allocator stops early, its figure needs no more digits.
template <class Work>
double best_of(Work work) {
  double best = 1e18, spent = 0;
  long pairs = 10'000;
  for (int repetition = 0; repetition < kRepetitions && spent < 0.35e9; ++repetition) {
    const double begun = now_ns();
    work(pairs);
    const double taken = now_ns() - begun;
    spent += taken;
    if (taken / static_cast<double>(pairs) < best) best = taken / static_cast<double>(pairs);
    if (repetition == 0) pairs = best < 100 ? 1'000'000 : best < 2000 ? 50'000 : 2'000;
  }
  return best;
}

int table() {
  constexpr std::size_t kSizes[] = {16, 64, 256, 1024, 4096, 16384, 65536, 262144};
  Dl_info info{};
  void* served = dlsym(RTLD_DEFAULT, "malloc");
  dladdr(served, &info);
  std::printf("{\"malloc\":\"%s\",\"pairs\":[", info.dli_fname != nullptr ? info.dli_fname : "unknown");
  const char* separator = "";
  for (std::size_t size : kSizes) {
    const double hot = best_of([&](long pairs) { lifo(size, pairs); });
    const double many = best_of([&](long pairs) { batch(size, pairs, kBatch); });
    std::printf("%s{\"size\":%zu,\"lifo_ns\":%.2f,\"batch_ns\":%.2f}", separator, size, hot, many);
    separator = ",";
  }
  std::printf("]}\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 1) return table();
  if (argc != 5 || std::strcmp(argv[1], "--count") != 0) {
    std::fprintf(stderr, "pair: expected no argument, or --count SIZE BATCH PAIRS\n");
    return 2;
  }
  const auto size = static_cast<std::size_t>(std::strtoull(argv[2], nullptr, 10));
  const int count = std::atoi(argv[3]);
  const long pairs = std::atol(argv[4]);
  if (count < 1 || count > static_cast<int>(sizeof blocks / sizeof *blocks)) {
    std::fprintf(stderr, "pair: BATCH must be between 1 and 65536\n");
    return 2;
  }
  if (count == 1) lifo(size, pairs);
  else batch(size, pairs, count);
  return 0;
}
