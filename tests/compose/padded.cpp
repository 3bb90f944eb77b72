// One program, compiled twice: the stack as it ships, and with a layer that does nothing between any two. The code of hits must be the
// same, instruction by instruction, and that of misses no longer.
#include "mortise/allocators/hslab.hpp"

namespace mortise {

struct DoesNothing {
  template <Heap Below> class Over : public Passthrough<Below> {
   public:
    using typename Passthrough<Below>::Thread;
    MORTISE_HOT Block allocate_hit(Thread& t, Request r) noexcept requires Hits<Below> { return this->below.allocate_hit(t, r); }
    MORTISE_HOT bool release_hit(Thread& t, Block b) noexcept requires Hits<Below> { return this->below.release_hit(t, b); }
  };
};

template <class List> struct Padded;
template <class Source> struct Padded<Layers<Source>> { using type = Layers<Source>; };
template <class First, class... Rest> struct Padded<Layers<First, Rest...>> {
#ifdef PADDED
  // PageIndex and a limit stand directly on their source; between all others there is room.
  static constexpr bool kOnSource = std::is_same_v<First, PageIndex> || std::is_same_v<First, LimitedTo<>>;
  using Pad = std::conditional_t<kOnSource, Layers<>, Layers<DoesNothing, DoesNothing>>;
#else
  using Pad = Layers<>;
#endif
  using type = Join<Layers<First>, Pad, typename Padded<Layers<Rest...>>::type>;
};

using Subject = Stack<typename Padded<HslabLayers>::type>;
constinit Subject heap{};
constinit Subject::Thread thread{};

}  // namespace mortise

using namespace mortise;

extern "C" {
void* hit(std::size_t n) { return heap.allocate_hit(thread, {.size = n}).ptr; }
bool unhit(void* p) {
  auto* at = static_cast<std::byte*>(p);
  return heap.holds(at) && heap.release_hit(thread, heap.block_of(at));
}
void* get(std::size_t n) { return heap.allocate(thread, {.size = n}).ptr; }
void put(void* p) { heap.release(thread, heap.measure(heap.block_of(static_cast<std::byte*>(p)))); }
}
