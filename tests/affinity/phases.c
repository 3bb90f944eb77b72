// Two lists of one size: first one alone grows, then both in turn. phases ALONE TOGETHER.
#include <stdio.h>
#include <stdlib.h>

typedef struct item {
  struct item* next;
  long value, more[4];
} item;
__attribute__((noinline)) static void push_first(item** head, long value) {
  item* fresh = malloc(sizeof *fresh);
  fresh->next = *head, fresh->value = value;
  *head = fresh;
}
__attribute__((noinline)) static void push_second(item** head, long value) {
  item* fresh = malloc(sizeof *fresh);
  fresh->next = *head, fresh->value = -value;
  *head = fresh;
}
static item *first, *second;

int main(int argc, char** argv) {
  const long alone = argc > 1 ? atol(argv[1]) : 100000, together = argc > 2 ? atol(argv[2]) : 0;
  long total = 0;
  for (long i = 0; i < alone; ++i) push_first(&first, i);
  for (long i = 0; i < together; ++i) push_first(&first, i), push_second(&second, 2 * i);
  for (const item* i = first; i; i = i->next) total += i->value;
  for (const item* i = second; i; i = i->next) total += i->value;
  printf("%ld\n", total);
  return 0;
}
