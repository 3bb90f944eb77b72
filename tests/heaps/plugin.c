/* For plugged.c: a plug-in that has the heaps built into itself. Made and gone, they leave free memory, and a thread that gives it back. */
#include <string.h>

#include "mortise/mortise.h"

int use_a_heap(void);
int use_a_heap(void) {
  mo_heap* heap = mo_heap_create(NULL);
  if (!heap) return 1;
  for (size_t i = 0; i < 20000; ++i) {
    void* p = mo_heap_alloc(heap, 100 + i % 1000);
    if (!p) return 2;
    memset(p, 1, 100);
  }
  mo_heap_destroy(heap);
  return 0;
}
