/* held destroy|free BLOCKS: makes a heap of so many blocks and ends it in one way or the other, for counting.
 * held wait: names two heaps, waits for a line. held many HEAPS: makes so many, each with ten blocks, waits for a line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mortise/mortise.h"

static void end_at_once(mo_heap* heap) { mo_heap_destroy(heap); }
static void end_one_by_one(mo_heap* heap, void** block, size_t count) {
  for (size_t i = 0; i < count; ++i) mo_heap_free(heap, block[i]);
  mo_heap_destroy(heap);
}

static int wait_for_a_line(void) {
  puts("ready");
  fflush(stdout);
  return getchar() == EOF;
}

int main(int count, char** arguments) {
  if (count == 2) {
    mo_heap* outer = mo_heap_create(&(mo_heap_options){.name = "outer", .limit = 100000000});
    mo_heap* inner = mo_heap_create(&(mo_heap_options){.name = "inner", .parent = outer});
    for (int i = 0; i < 1000; ++i) memset(mo_heap_alloc(inner, 112), 1, 112);
    return wait_for_a_line();
  }
  if (arguments[1][0] == 'm') {
    for (size_t i = strtoul(arguments[2], NULL, 10); i > 0; --i) {
      mo_heap* heap = mo_heap_create(NULL);
      for (int k = 0; k < 10; ++k) memset(mo_heap_alloc(heap, 112), 1, 112);
    }
    return wait_for_a_line();
  }
  const size_t blocks = strtoul(arguments[2], NULL, 10);
  void** block = malloc(blocks * sizeof *block);
  mo_heap* heap = mo_heap_create(NULL);
  for (size_t i = 0; i < blocks; ++i) *(char*)(block[i] = mo_heap_alloc(heap, 16 + i * 7 % 500)) = 1;
  if (arguments[1][0] == 'd') end_at_once(heap);
  else end_one_by_one(heap, block, blocks);
  free(block);
  return 0;
}
