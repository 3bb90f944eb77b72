// Blocks that grow by moving their pages, beside threads that take what the pages have left at once: every block keeps
// what was written to its ends. For a few seconds.
#include <pthread.h>

#include <atomic>

#include "life.hpp"

namespace {

using life::now_ms;

std::atomic<std::uint64_t> stamps{1};
std::uint64_t end_ms = 0;

/// A block whose first and last word are its own.
struct Stamped {
  char* p = nullptr;
  std::size_t size = 0;
  std::uint64_t stamp = 0;
  std::uint64_t& first() { return *reinterpret_cast<std::uint64_t*>(p); }
  std::uint64_t& last() { return *reinterpret_cast<std::uint64_t*>(p + size - 8); }
  void mark(char* at, std::size_t n) {
    EXPECT(at);
    p = at, size = n, stamp = stamps++;
    first() = last() = stamp;
  }
  void check() { EXPECT(first() == stamp && last() == stamp); }
};

void* grows(void*) {
  while (now_ms() < end_ms) {
    Stamped block;
    block.mark(static_cast<char*>(malloc(540'000)), 540'000);
    for (int i = 0; i < 3; ++i) {
      const std::size_t twice = block.size * 2;
      char* const p = static_cast<char*>(realloc(block.p, twice));
      EXPECT(p);
      block.p = p;
      block.check();
      block.mark(p, twice);
    }
    free(block.p);
  }
  return nullptr;
}

void* takes(void*) {
  Stamped blocks[12];
  life::Random random(7);
  while (now_ms() < end_ms) {
    Stamped& block = blocks[random.below(12)];
    if (block.p) {
      block.check();
      free(block.p);
      block.p = nullptr;
    } else {
      const std::size_t size = 100'000 + random.below(150'000) / 8 * 8;
      block.mark(static_cast<char*>(malloc(size)), size);
    }
  }
  for (Stamped& block : blocks) free(block.p);
  return nullptr;
}

}  // namespace

int main() {
  end_ms = now_ms() + 3000;
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) EXPECT(pthread_create(&threads[i], nullptr, i ? takes : grows, nullptr) == 0);
  for (pthread_t& t : threads) EXPECT(pthread_join(t, nullptr) == 0);
  return 0;
}
