// One list that is built and cut down to every sixteenth of its items, again and again. rounds ROUNDS ITEMS.
#include <stdio.h>
#include <stdlib.h>

typedef struct item {
  struct item* next;
  long value, more[4];
} item;
static item *list, *left;

int main(int argc, char** argv) {
  const long rounds = argc > 1 ? atol(argv[1]) : 10, items = argc > 2 ? atol(argv[2]) : 100000;
  long total = 0;
  for (long r = 0; r < rounds; ++r) {
    for (long i = 0; i < items; ++i) {
      item* const fresh = malloc(sizeof *fresh);
      fresh->next = list, fresh->value = i;
      list = fresh;
    }
    while (list) {
      item* const it = list;
      list = it->next;
      total += it->value;
      if (it->value % 16 == 0) it->next = left, left = it;
      else free(it);
    }
  }
  for (const item* i = left; i; i = i->next) total += i->value;
  printf("%ld\n", total);
  return 0;
}
