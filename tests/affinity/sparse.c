// Twenty-four kinds of objects from twenty-four places: most of the first kind are released, a few stay scattered.
#include <stdio.h>
#include <stdlib.h>

typedef struct {
  long value[6];
} thing;

#define KIND(n)                                               \
  __attribute__((noinline)) static thing* make_##n(long v) { \
    thing* t = malloc(sizeof *t);                             \
    t->value[0] = v * n;                                      \
    return t;                                                 \
  }
#define EIGHT(a) KIND(a##0) KIND(a##1) KIND(a##2) KIND(a##3) KIND(a##4) KIND(a##5) KIND(a##6) KIND(a##7)
EIGHT(1) EIGHT(2) EIGHT(3)
#define NAMES(a) make_##a##0, make_##a##1, make_##a##2, make_##a##3, make_##a##4, make_##a##5, make_##a##6, make_##a##7,
static thing* (*const make[])(long) = {NAMES(1) NAMES(2) NAMES(3)};
enum { kinds = sizeof make / sizeof *make, many = 4000, few = 300 };
static thing* all[kinds][many];

int main(void) {
  long total = 0;
  for (int i = 0; i < many; ++i) all[0][i] = make[0](i);
  for (int i = 0; i < many; ++i)
    if (i % 50) free(all[0][i]), all[0][i] = NULL;
  for (int k = 1; k < kinds; ++k)
    for (int i = 0; i < few; ++i) all[k][i] = make[k](i);
  for (int i = 1; i < many; i += 50) all[0][i] = make[0](i);
  for (int k = 0; k < kinds; ++k)
    for (int i = 0; i < many; ++i) total += all[k][i] ? all[k][i]->value[0] : 0;
  printf("%ld\n", total);
  return 0;
}
