// A binary tree, built by a recursion that compilers unroll into dozens of allocation sites: unrolled LEVELS. Then three structures of one
// size, built in turn through one wrapper and never linked: all three must stay apart.
#include <stdio.h>
#include <stdlib.h>

typedef struct tree {
  long value;
  struct tree *left, *right;
} tree;

static tree* build(int level) {
  if (level == 0) return NULL;
  tree* fresh = malloc(sizeof *fresh);
  tree *left = build(level - 1), *right = build(level - 1);
  fresh->value = 1, fresh->left = left, fresh->right = right;
  return fresh;
}
static long sum(const tree* t) { return t ? sum(t->left) + sum(t->right) + t->value : 0; }

typedef struct item {
  struct item* next;
  long a, b, c, d, e;
} item;
__attribute__((noinline)) static void* checked_malloc(size_t n) {
  void* p = malloc(n);
  if (!p) abort();
  return p;
}
__attribute__((noinline)) static void push(item** head, long value) {
  item* fresh = checked_malloc(sizeof *fresh);
  fresh->next = *head, fresh->a = value;
  *head = fresh;
}
__attribute__((noinline)) static void push_other(item** head, long value) {
  item* fresh = checked_malloc(sizeof *fresh);
  fresh->next = *head, fresh->b = value;
  *head = fresh;
}
item *first_list, *second_list;

int main(int argc, char** argv) {
  const tree* t = build(argc > 1 ? atoi(argv[1]) : 14);
  for (long i = 0; i < 5000; ++i) {
    push(&first_list, i);
    push_other(&second_list, i);
    if (i % 3 == 0) push_other(&second_list, i);
  }
  long total = sum(t);
  for (long rounds = argc > 2 ? atol(argv[2]) : 1; rounds > 0; --rounds)
    for (const item* i = first_list; i; i = i->next) total += i->a;
  for (const item* i = second_list; i; i = i->next) total += i->b;
  printf("%ld\n", total);
  return 0;
}
