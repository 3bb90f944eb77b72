// Memory runs out, and comes back by deletes that name sizes: deletes. New blocks of all sizes until there are no more, round after round.
#include <new>
#include <vector>

#include "life.hpp"

int main() {
  struct Held {
    void* p;
    std::size_t size;
  };
  std::vector<Held> held;
  held.reserve(1'000'000);
  std::size_t seed = 1, count = 0;
  for (int round = 0; round < 20; ++round) {
    for (unsigned failed = 0; failed < 100 && held.size() < held.capacity();) {
      seed = seed * 6364136223846793005 + 1442695040888963407;
      const std::size_t size = 1 + (seed >> 33) % (seed >> 60 ? 2000 : 60'000);
      void* const p = operator new(size, std::nothrow);
      if (p) held.push_back({p, size}), memset(p, 0x11, size), ++count;
      else ++failed;
    }
    for (std::size_t i = 0; i < held.size(); i += 2) {  // every other one: what is free lies in pieces
      operator delete(held[i].p, held[i].size);
      held[i] = held.back();
      held.pop_back();
    }
  }
  for (const Held& h : held) operator delete(h.p, h.size);
  printf("%zu blocks\n", count);
}
