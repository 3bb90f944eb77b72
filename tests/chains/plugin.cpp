// A library that is opened and closed again and again: a wrapper whose frame is as large as the build says, so that what was
// learnt of one library is wrong of the other that is mapped in its place.
#include <stdlib.h>
#include <string.h>

#ifndef FRAME
#define FRAME 40
#endif

namespace {
struct Item {
  Item* next;
  long value[3];
};

[[gnu::noinline]] void* take(size_t n) {
  volatile char room[FRAME];
  room[0] = static_cast<char>(n);
  void* p = malloc(n);
  if (!p) abort();
  room[FRAME - 1] = room[0];
  return p;
}
}  // namespace

extern "C" [[gnu::visibility("default")]] long run(int count) {
  Item* first = nullptr;
  for (int i = 0; i < count; ++i) {
    auto* item = static_cast<Item*>(take(sizeof(Item)));
    *item = {first, {i, FRAME, 0}};
    first = item;
  }
  long sum = 0;
  while (first) {
    Item* next = first->next;
    sum += first->value[0] * first->value[1];
    free(first);
    first = next;
  }
  return sum;
}
