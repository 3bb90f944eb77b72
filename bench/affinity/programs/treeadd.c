/* A binary tree, built by recursion and summed up: treeadd LEVELS. Compilers unroll the recursion that allocates, so that one
 * call in the source becomes several in the program. After Olden's treeadd [Rogers95]; written anew. */
#include <stdio.h>
#include <stdlib.h>

typedef struct Tree {
  int value;
  struct Tree *left, *right;
} Tree;

static Tree* build(int level) {
  if (level == 0) return NULL;
  Tree* t = malloc(sizeof *t);
  Tree* left = build(level - 1);
  Tree* right = build(level - 1);
  t->value = 1;
  t->left = left;
  t->right = right;
  return t;
}

static int sum(const Tree* t) { return t ? t->value + sum(t->left) + sum(t->right) : 0; }

int main(int argc, char** argv) {
  const Tree* t = build(argc > 1 ? atoi(argv[1]) : 21);
  int total = 0;
  for (int i = 0; i < 4; ++i) total += sum(t);
  printf("%d\n", total);
  return 0;
}
