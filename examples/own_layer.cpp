// A layer of your own: it counts requests by size and forwards everything else.
//
// A layer is a struct with a template `Over<Below>`. It says only what it changes; Passthrough forwards the rest, functions and
// facts alike. The class that is counted is known at compile time to exist: `Classed` refuses a stack without size classes.
//
//   g++ -std=c++20 -O2 -Iinclude examples/own_layer.cpp -o own_layer && ./own_layer
#include <cstdio>

#include "mortise/allocators/hslab.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/os/print_and_abort.hpp"

struct CountBySize {
  template <mortise::Classed Below> class Over : public mortise::Passthrough<Below> {
   public:
    using typename mortise::Passthrough<Below>::Thread;
    using typename mortise::Passthrough<Below>::Classes;

    mortise::Block allocate(Thread& t, mortise::Request r) noexcept {
      if (r.size <= Classes::kMaxBytes) ++requests[Classes::class_of(r.size)];
      return this->below.allocate(t, r);
    }

    unsigned requests[Classes::kCount + 1] = {};
  };
};

// Prepended, so that it sees every request.
using Counted = mortise::Stack<mortise::Layers<CountBySize>, mortise::HslabLayers>;

constinit Counted heap{};
constinit thread_local mortise::os::OwnArea area{};

int main() {
  if (!heap.start(mortise::os::read_facts(&area))) return 1;
  Counted::Thread thread;
  attach_below(heap, thread);
  for (std::size_t size : {24, 24, 24, 1000, 24, 1000}) heap.release(thread, heap.allocate(thread, {.size = size}));
  for (unsigned c = 1; c <= Counted::Classes::kCount; ++c)
    if (heap.requests[c]) std::printf("up to %zu bytes: %u requests\n", Counted::Classes::size_of(c), heap.requests[c]);
  detach_below(heap, thread);
}
