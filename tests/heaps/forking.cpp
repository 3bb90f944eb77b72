// The scenarios of life/forking.hpp, where a stream of the program's own making allocates from a heap.
#include "life/forking.hpp"

#include "mortise/heap.hpp"

namespace {
mo_heap* heap = nullptr;
}

int main() {
  heap = mo_heap_create(nullptr);
  EXPECT(heap);
  life::ForkAmidFlush().run([] {
    for (unsigned i = 0; i < 1000; ++i) EXPECT(mo_heap_alloc(heap, 300));
  });
  life::ForkAmidFork::run();
  mo_heap_destroy(heap);
}
