// A program with operator new[] and operator delete[] of its own, and no others: what is no array is as if it had none. own_arrays wrong:
// a delete names another size than the block has.
#include <new>

#include "life.hpp"

namespace {

alignas(16) char array[1 << 12];
std::size_t used = 0;
int deleted = 0;

template <class T> T unknown(T value) {
  asm volatile("" : "+r"(value));
  return value;
}

}  // namespace

#ifndef __clang__
#pragma GCC diagnostic ignored "-Wsized-deallocation"
#endif
void* operator new[](std::size_t size) {
  void* const p = array + used;
  used += (size + 15) & ~std::size_t{15};
  return used <= sizeof array ? p : throw std::bad_alloc();
}
void operator delete[](void* p) noexcept {
  EXPECT(p >= array && p < array + sizeof array);
  ++deleted;
}

int main(int count, char**) {
  using std::nothrow;
  ::operator delete[](unknown(::operator new[](40)), std::size_t{40});
  ::operator delete[](unknown(::operator new[](40, nothrow)), nothrow);
  EXPECT(!::operator new[](unknown(sizeof array), nothrow));
  EXPECT(!::operator new(unknown(std::size_t{1} << 60), nothrow));
  ::operator delete(unknown(::operator new(40)), std::size_t{40});
  if (count > 1) ::operator delete(unknown(::operator new(40)), std::size_t{400});
  printf("deleted %d\n", deleted);
}
