// Asks the heap what it holds, in every way there is, while other threads allocate, hand over and release, and check what they wrote.
// Says "busy" once all of that has begun, and goes on until its input ends.
#include <malloc.h>
#include <stdio.h>

#include <atomic>
#include <thread>
#include <vector>

#include "life.hpp"

namespace {

constexpr unsigned kThreads = 3, kSlots = 64;
std::atomic<bool> is_over{false};
std::atomic<unsigned> busy{0};
std::atomic<unsigned char*> handed[kSlots];  ///< a block that one thread made and another will release

/// A block says what is in it: its length in the first word, then one byte, `mark`, to the end.
unsigned char* make(std::uint32_t random) {
  const std::uint32_t n = 16 + (random % 64 ? random % 600 : random % 300'000);
  auto* const p = static_cast<unsigned char*>(random & 1024 ? calloc(1, n) : malloc(n));
  EXPECT(p);
  memset(p, static_cast<int>(random >> 24), n);
  memcpy(p, &n, sizeof n);
  return p;
}
void drop(unsigned char* p) {
  if (!p) return;
  std::uint32_t n;
  memcpy(&n, p, sizeof n);
  EXPECT(n >= 16 && n < 301'000);
  for (std::uint32_t i = sizeof n; i < n; ++i) EXPECT(p[i] == p[sizeof n]);
  free(p);
}

void work(std::uint32_t random) {
  unsigned char* own[kSlots] = {};
  for (unsigned round = 0; !is_over; ++round) {
    random = random * 1664525 + 1013904223;
    unsigned char*& mine = own[random >> 16 & (kSlots - 1)];
    drop(mine);
    mine = nullptr;
    if (random & 256) mine = make(random);
    else drop(handed[random >> 8 & (kSlots - 1)].exchange(make(random)));
    if (round == 1000) ++busy;
  }
  for (unsigned char* p : own) drop(p);
}
/// Threads that come and go: what they have released waits nowhere afterwards.
void come_and_go() {
  const auto live = [](std::uint32_t seed) {
    for (unsigned i = 0; i < 300; ++i) drop(make(seed * 40503u * (i + 1)));
  };
  for (std::uint32_t seed = 1; !is_over; ++seed) std::thread(live, seed).join();
}

void ask(FILE* nowhere) {
  for (unsigned asked = 0; !is_over; ++asked) {
    const struct mallinfo2 m = mallinfo2();
    EXPECT(m.fordblks <= m.arena + m.hblkhd);  // what is free is not more than what there is
    EXPECT(malloc_info(0, nowhere) == 0);
    malloc_stats();
    if (asked == 10) ++busy;
  }
}

}  // namespace

int main() {
  FILE* const nowhere = fopen("/dev/null", "w");
  EXPECT(nowhere);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) threads.emplace_back(work, 77 * i + 1);
  threads.emplace_back(come_and_go);
  threads.emplace_back(ask, nowhere);
  while (busy < kThreads + 1) usleep(100);
  EXPECT(write(1, "busy\n", 5) == 5);
  char line[8];
  while (read(0, line, sizeof line) > 0) {}
  is_over = true;
  for (std::thread& t : threads) t.join();
  for (auto& p : handed) drop(p.load());
  EXPECT(write(1, "whole\n", 6) == 6);
}
