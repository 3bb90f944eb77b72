// A server that gives each request a heap: what a request leaves behind goes with it, in one step, however it ended.
//
//   c++ -std=c++20 -Iinclude examples/heaps.cpp -Lbuild/lib -lmortise -Wl,-rpath,$PWD/build/lib -o heaps && ./heaps
#include <cstdio>
#include <map>
#include <memory_resource>
#include <string>
#include <thread>
#include <vector>

#include "mortise/heap.hpp"

namespace {

using Header = std::pair<const std::pmr::string, std::pmr::string>;

std::size_t serve(int number) {
  mo_heap_options options{};
  options.name = "request";
  options.limit = 64 << 20;  // one request cannot take the memory of all
  mortise::heap heap(options);
  mortise::heap_resource memory(heap);

  std::pmr::map<std::pmr::string, std::pmr::string> headers(&memory);
  std::thread reader([&] {  // another thread fills it in, and ends before the heap does
    for (int i = 0; i < 1000; ++i) headers.emplace("x-header-number-" + std::to_string(i), std::string(100, 'a'));
  });
  reader.join();
  std::vector<int, mortise::heap_allocator<int>> body(100'000, number, heap);
  return heap.stats().live_bytes;
}  // the map's nodes are freed one by one; the heap's destroy takes whatever is left

}  // namespace

int main() {
  std::size_t most = 0;
  for (int i = 0; i < 100; ++i) most = std::max(most, serve(i));

  mo_heap* leaky = mo_heap_create(nullptr);
  for (int i = 0; i < 1'000'000; ++i) *static_cast<int*>(mo_heap_alloc(leaky, 40)) = i;
  mo_heap_destroy(leaky);  // a million blocks, and nobody looks at one of them

  alignas(64) static char memory[1 << 20];
  mortise::heap arena(memory, sizeof memory);  // no memory but this array
  std::printf("100 requests, at most %zu bytes at a time; an arena block at offset %td\n", most,
              static_cast<char*>(arena.allocate(100)) - memory);
  return most == 0;
}
