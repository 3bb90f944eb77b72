// Cells and what they hold, allocated in turn, linked and visited together, of sizes that differ within one size class.
#include <stdio.h>
#include <stdlib.h>

struct patient {
  long time, left;
};
struct cell {
  struct cell* next;
  struct patient* patient;
};
struct cell* head;

int main(void) {
  for (int i = 0; i < 20000; ++i) {
    struct cell* c = malloc(sizeof *c);
    struct patient* p = malloc(sizeof *p - (size_t)(i & 1));  // so no rule on equal sizes joins them
    p->time = i;
    c->patient = p;
    c->next = head;
    head = c;
  }
  long total = 0;
  for (struct cell* c = head; c; c = c->next) total += c->patient->time;
  printf("%ld\n", total);
  return 0;
}
