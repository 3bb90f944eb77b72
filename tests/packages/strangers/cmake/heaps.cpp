#include <mortise/heap.hpp>

#include <cstdio>
#include <vector>

int main() {
  mortise::heap heap;
  std::vector<int, mortise::heap_allocator<int>> numbers(100, 1, heap);
  std::printf("%d\n", numbers[99]);
}
