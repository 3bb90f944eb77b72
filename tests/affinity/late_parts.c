// Nodes, each with a part of its own size class that it gets long after it was made; or tables of three such parts each; or an index, whose
// entries are made when all parts are there.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct part {
  long value, unused[6];
};
struct node {
  struct node* next;
  struct part* part;
  long unused[6];
};
struct table {
  struct part* part[3];
  struct table* next;
  long unused[4];
};

__attribute__((noinline)) static long much_later(long n) {
  volatile long sum = 0;
  for (long i = 0; i < 200; ++i) sum = sum + i % (n + 1);
  return sum;
}
__attribute__((noinline)) static struct part* made(long value) {
  struct part* p = malloc(sizeof *p);
  memset(p, 0, sizeof *p);
  p->value = value + much_later(value) % 2;
  return p;
}

enum { kParts = 3000 };

static long indexed(void) {
  static struct part* parts[kParts];
  struct node* entries = NULL;
  long total = 0;
  for (int i = 0; i < kParts; ++i) parts[i] = made(i);
  for (int i = 0; i < kParts; ++i) {
    struct node* n = malloc(sizeof *n);
    n->next = entries;
    n->part = parts[kParts - 1 - (unsigned)i * 1009 % 1000];  // of those that lie in a pool
    entries = n;
  }
  for (; entries; entries = entries->next) total += entries->part->value;
  return total;
}

int main(int count, char** arguments) {
  const int tables = count > 1 && arguments[1][0] == 't';
  if (count > 1 && arguments[1][0] == 'i') return printf("%ld\n", indexed()) < 0;
  struct node* nodes = NULL;
  struct table* rows = NULL;
  long total = 0;
  for (int i = 0; i < kParts; ++i) {
    if (tables) {
      struct table* t = malloc(sizeof *t);
      t->next = rows;
      rows = t;
      for (int k = 0; k < 3; ++k) t->part[k] = made(i);
    } else {
      struct node* n = malloc(sizeof *n);
      n->next = nodes;
      nodes = n;
      n->part = made(i);
    }
  }
  for (; nodes; nodes = nodes->next) total += nodes->part->value;
  for (; rows; rows = rows->next) total += rows->part[0]->value + rows->part[2]->value;
  printf("%ld\n", total);
  return 0;
}
