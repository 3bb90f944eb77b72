// An allocator of your own: another order of the same layers. Here: classes that are powers of two, pages back at once, and no
// caches between the program and the slabs. Slower than hslab, smaller, and every release is checked on the spot.
//
// `mortise_allocator(NAME)` in CMake makes a preloadable library out of such a header; this example uses the heap directly:
//
//   g++ -std=c++20 -O2 -Iinclude examples/own_allocator.cpp -o own_allocator && ./own_allocator
#include <cstdio>

#include "mortise/backbone/slab.hpp"
#include "mortise/cache/span_cache.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/os/print_and_abort.hpp"
#include "mortise/route/bypass.hpp"
#include "mortise/shape/aligned.hpp"
#include "mortise/source/mmap_heap.hpp"

using namespace mortise;

using Frugal = Stack<Layers<
    Aligned,
    Bypass<LargerThan<32_KiB>,
           Slab<classes::PowerOfTwo<32_KiB>, FutexLock, fit::FullestFirst>>,
    SpanCache<purge::AtOnce, huge::Never>,
    PageIndex,
    MmapHeap<>>>;

static_assert(Frugal::kProgress.hit == Guarantee::blocking, "every call takes the lock of its class");

constinit Frugal heap{};
constinit thread_local os::OwnArea area{};

int main() {
  if (!heap.start(os::read_facts(&area))) return 1;
  Frugal::Thread thread;
  const Block small = heap.allocate(thread, {.size = 100});
  const Block large = heap.allocate(thread, {.size = 1_MiB, .zeroed = true});
  if (!small || !large) return 1;
  std::printf("100 bytes are a block of %zu, 1 MiB one of %zu\n", static_cast<std::size_t>(heap.measure(small).size),
              static_cast<std::size_t>(heap.measure(large).size));
  heap.release(thread, small);
  heap.release(thread, large);
  Usage usage;
  heap.tell(usage);
  std::printf("live bytes: %zu\n", usage.live);
}
