// All that a program may include, and one use of each: what is wrong in a template is said where it is used.
#include <mortise/allocators/hslab.hpp>
#include <mortise/allocators/wfslab.hpp>
#include <mortise/heap.hpp>
#include <mortise/mortise.hpp>
#include <mortise/pool.h>
#include <mortise/pool.hpp>

#include <list>

template <class Heap> bool use(Heap& heap) {
  typename Heap::Thread thread;
  attach_below(heap, thread);
  const mortise::Block block = heap.allocate(thread, {.size = 100});
  heap.release(thread, heap.block_of(block.ptr));
  detach_below(heap, thread);
  mortise::Usage usage;
  heap.tell(usage);
  return usage.live == 0;
}

constinit mortise::Hslab hslab{};
constinit mortise::Wfslab wfslab{};

int main() {
  mortise::distributed_pool<int> pool{{.maximum = 4}};
  mortise::distributed_pool<int, mortise::kept_constructed<int>, mortise::checked_pool> kept{{.maximum = 4, .prefill = 2}};
  mortise::array_of_pools<int, 2, mortise::by_thread_hash, mortise::pools::IndexHead, mortise::pools::CountedByThread<>> pools{8};
  pools.release(pools.try_acquire());
  mortise::bytes_pool bytes(64, 16, {.maximum = 4});
  mortise::pool_resource nodes(bytes);
  mortise::heap heap;
  mortise::heap_resource resource(heap);
  std::list<int, mortise::heap_allocator<int>> numbers(heap);
  return pool.try_acquire(1) && kept.acquire_for(1) && kept.trim() && use(hslab) && use(wfslab) && resource.is_equal(nodes);
}
