// A program with the two basic operators of its own, as the standard lets it: every other form comes to them, whoever has it.
// own_operators: from an array of its own, which no free of anybody else's knows.
#include <new>

#include "life.hpp"

namespace {

alignas(16) char array[1 << 16];
std::size_t used = 0;
int made = 0, deleted = 0, of_others = 0;

struct Object {
  long words[5];
  ~Object() { asm volatile("" ::: "memory"); }  // an array of them says how many there are
};

template <class Pointer> Pointer* unknown(Pointer* p) {
  asm volatile("" : "+r"(p));
  return p;
}

}  // namespace

#ifndef __clang__
#pragma GCC diagnostic ignored "-Wsized-deallocation"  // that there is no sized one is what it is about
#endif
void* operator new(std::size_t size) {
  ++made;
  void* const p = array + used;
  used += (size + 15) & ~std::size_t{15};
  return used <= sizeof array ? p : throw std::bad_alloc();
}
void operator delete(void* p) noexcept {
  ++deleted;
  of_others += p < array || p >= array + sizeof array;
}

int main() {
  using std::nothrow, std::align_val_t;
  delete unknown(new Object);  // says its size
  delete unknown(new (nothrow) Object);
  delete[] unknown(new Object[3]);
  delete[] unknown(new (nothrow) Object[3]);
  ::operator delete(unknown(::operator new(40)));
  ::operator delete(unknown(::operator new(40)), std::size_t{40});
  ::operator delete(unknown(::operator new(40, nothrow)), nothrow);
  ::operator delete[](unknown(::operator new[](40)));
  ::operator delete[](unknown(::operator new[](40)), std::size_t{40});
  ::operator delete[](unknown(::operator new[](40, nothrow)), nothrow);
  EXPECT(::operator new(1 << 20, nothrow) == nullptr);
  EXPECT(::operator new[](1 << 20, nothrow) == nullptr);
  printf("made %d, deleted %d, of others %d\n", made, deleted, of_others);
  constexpr align_val_t kAlign{64};
  for (int i = 0; i < 100; ++i) {  // these are not the program's
    void* const blocks[] = {::operator new(100, kAlign), ::operator new[](100, kAlign), ::operator new(100, kAlign, nothrow), ::operator new[](100, kAlign, nothrow)};
    for (void* p : blocks) EXPECT(p && reinterpret_cast<std::uintptr_t>(p) % 64 == 0);
    ::operator delete(blocks[0], kAlign);
    ::operator delete[](blocks[1], kAlign);
    ::operator delete(blocks[2], std::size_t{100}, kAlign);
    ::operator delete[](blocks[3], std::size_t{100}, kAlign);
  }
  printf("made %d, deleted %d\n", made, deleted);
}
