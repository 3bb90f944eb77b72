// A heap for one part of a program: constant-time steps, no lock since one thread uses it, its blocks far from everybody else's.
//
//   g++ -std=c++20 -O2 -Iinclude examples/arena_inside_a_program.cpp -o arena && ./arena
#include <cstdio>
#include <cstring>

#include "mortise/backbone/tlsf.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/os/print_and_abort.hpp"
#include "mortise/source/mmap_heap.hpp"
#include "mortise/sync/unsynchronised.hpp"

using namespace mortise;

class Arena {
 public:
  Arena() { heap_.start(os::read_facts(nullptr)); }

  void* allocate(std::size_t bytes) { return heap_.allocate(thread_, {.size = bytes}).ptr; }
  void release(void* p) { heap_.release(thread_, heap_.block_of(static_cast<std::byte*>(p))); }
  std::size_t live_bytes() {
    Usage usage;
    heap_.tell(usage);
    return usage.live;
  }

 private:
  using Heap = Stack<Layers<Tlsf<Unsynchronised>, MmapHeap<>>>;
  Heap heap_;
  Heap::Thread thread_;
};

int main() {
  Arena arena;
  char* const words[] = {static_cast<char*>(arena.allocate(6)), static_cast<char*>(arena.allocate(6))};
  if (!words[0] || !words[1]) return 1;
  std::strcpy(words[0], "hello");
  std::strcpy(words[1], "arena");
  std::printf("%s %s, %zu bytes live\n", words[0], words[1], arena.live_bytes());
  for (char* word : words) arena.release(word);
  std::printf("%zu bytes live\n", arena.live_bytes());
}
