// One size: a list that grows, and four kinds of objects that come and go meanwhile; then two of these stay as well. passing FIRST LATER.
#include <stdio.h>
#include <stdlib.h>

typedef struct item {
  struct item* next;
  long value, more[6];
} item;
#define KIND(name)                                                                     \
  __attribute__((noinline)) static item* name(item* next, long value) {               \
    item* fresh = malloc(sizeof *fresh);                                               \
    fresh->next = next, fresh->value = value, fresh->more[0] = __LINE__;               \
    return fresh;                                                                      \
  }
KIND(listed)
KIND(first)
KIND(second)
KIND(third)
KIND(fourth)
static item* (*volatile const passing[4])(item*, long) = {first, second, third, fourth};
static item *list, *kept[2];

int main(int argc, char** argv) {
  const long come = argc > 1 ? atol(argv[1]) : 100000, stay = argc > 2 ? atol(argv[2]) : 0;
  long total = 0;
  for (long i = 0; i < come; ++i) {
    list = listed(list, i);
    for (int k = 0; k < 4; ++k) {
      item* const one = passing[k](NULL, i);
      total += one->value;
      free(one);
    }
  }
  for (long i = 0; i < stay; ++i) kept[i & 1] = passing[i & 1](kept[i & 1], i);
  for (const item* i = list; i; i = i->next) total += i->value;
  for (int k = 0; k < 2; ++k)
    for (const item* i = kept[k]; i; i = i->next) total += i->value;
  printf("%ld\n", total);
  return 0;
}
