// If this failed, a fork would wait for ever with a heap's lock in its own hands: for a handler of the program that uses a heap and was
// registered before there was one, or for itself, where the child sends its parent a signal at once for which the handler forks as well.
#include "mortise/mortise.h"

#include "../life/forking.hpp"

int main() {
  static mo_heap* heap = nullptr;
  const auto use = [] { mo_heap_free(heap, mo_heap_alloc(heap, 300'000)); };
  EXPECT(pthread_atfork(use, use, use) == 0);
  heap = mo_heap_create(nullptr);
  life::ForkAmidFork::run();
}
