// If this does not compile, or ends otherwise, programs without exceptions and run-time types, as games and firmware are, cannot use
// heaps from C++; nor can those of C++17.
#include <map>
#include <utility>
#include <vector>

#include "mortise/heap.hpp"

static_assert(!noexcept(mortise::heap{}) && noexcept(mortise::heap::adopt(nullptr)));

int main() {
  mo_heap_options wrong{};
  wrong.bytes = 1;
  mortise::heap none = mortise::heap::adopt(mo_heap_create(&wrong));
  if (none) return 1;
  mortise::heap heap;
  mortise::heap_resource resource(heap), same(heap);
  std::pmr::vector<int> numbers(&resource);
  numbers.assign(1000, 7);
  std::vector<int, mortise::heap_allocator<int>> others(numbers.begin(), numbers.end(), heap);
  if (others.back() != 7 || heap.stats().live_bytes < 8000) return 2;
#if defined(__cpp_rtti)
  if (!resource.is_equal(same)) return 3;
#else
  if (!resource.is_equal(resource) || resource.is_equal(same)) return 3;
#endif
  std::vector<int, mortise::heap_allocator<int>> moved(heap);
  moved = std::move(others);
  std::map<int, int, std::less<>, mortise::heap_allocator<std::pair<const int, int>>> pairs(heap), copies(heap);
  pairs[1] = moved.back();
  copies = pairs;
  copies = std::move(pairs);
  if (copies[1] != 7) return 5;
  none = std::move(heap);
  return none && !heap ? 0 : 4;
}
