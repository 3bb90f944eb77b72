#include <mortise/mortise.h>
#include <stdio.h>

int main(void) {
  mo_heap* heap = mo_heap_create(&(mo_heap_options){.name = "stranger"});
  char* text = mo_heap_alloc(heap, 100);
  snprintf(text, 100, "%d", mo_heap_of(text) == heap);
  puts(text);
  mo_heap_destroy(heap);
  return 0;
}
